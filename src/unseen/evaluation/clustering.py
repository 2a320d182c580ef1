"""Clustering scores: how well clusters found without labels agree with the classes."""

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score

from unseen.core.registry import score

Numbers = NDArray[np.int64]


def pair_counting_f1(clusters: Numbers, classes: Numbers) -> float:
    """F1 over pairs of points, where a pair is found if it shares a cluster and right if it shares a class.

    F = 2 TP / (pairs in one cluster + pairs in one class), which is 2 P R / (P + R) without its empty cases.

    Empty:  no pair that shares cluster and class gives 0, also when no class has two points

    >>> pair_counting_f1(np.array([0, 0, 1, 1]), np.array([5, 5, 7, 8]))
    0.6666666666666666
    """
    both = _pairs(np.unique(np.stack([clusters, classes]), axis=1, return_counts=True)[1])
    found = _pairs(np.unique(clusters, return_counts=True)[1])
    right = _pairs(np.unique(classes, return_counts=True)[1])
    return 2 * both / (found + right) if both else 0.0


def _pairs(counts: Numbers) -> int:
    # Python's whole numbers: 200,000 points of one class have more pairs than a 32-bit number holds.
    return sum(count * (count - 1) // 2 for count in counts.tolist())


class _Facts:
    """What a report needs to know of a score."""

    basis = "clusters"
    higher_is_better = True
    bounds = (0.0, 1.0)


@score("nmi")
class NMI(_Facts):
    """Normalised mutual information of clusters and classes (SPEC 4.3); not adjusted for chance.

    Empty:  one cluster and one class are identical partitions and give 1; one cluster of several classes gives 0
    """

    definition = "2 I(clusters, classes) / (H(clusters) + H(classes))"

    def __call__(self, clusters: Numbers, classes: Numbers) -> float:
        """One value for the whole clustering."""
        value = float(normalized_mutual_info_score(classes, clusters, average_method="arithmetic"))
        return min(max(value, 0.0), 1.0)


@score("f1")
class F1(_Facts):
    """Harmonic mean of precision and recall over pairs of points in one cluster (SPEC 4.4)."""

    definition = "2 P R / (P + R) over pairs; P of the pairs in one cluster, R of those in one class share both"

    def __call__(self, clusters: Numbers, classes: Numbers) -> float:
        """One value for the whole clustering."""
        return pair_counting_f1(clusters, classes)
