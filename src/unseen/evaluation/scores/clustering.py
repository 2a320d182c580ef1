"""Clustering scores: how well clusters found without labels agree with the classes, or with super-classes.

All are functions of the sizes of clusters, of classes and of what they share. Logarithms are added up by exactly
rounded sums over these sizes, so no score depends on the order of the points or on the numbering of either partition.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.core.errors import BatchError
from unseen.core.registry import score

Numbers = NDArray[np.int64]


class Sizes(NamedTuple):
    """How many points there are, and how many in each cluster, in each class, and in each cluster and class at once."""

    points: int
    clusters: Numbers
    classes: Numbers
    both: Numbers

    @property
    def are_identical(self) -> bool:
        """Whether clusters and classes are one partition under two numberings."""
        return len(self.clusters) == len(self.classes) == len(self.both)


def count_sizes(clusters: Numbers, classes: Numbers) -> Sizes:
    """The sizes of two partitions and of their common refinement, empty parts left out."""
    _, cluster, in_clusters = np.unique(clusters, return_inverse=True, return_counts=True)
    _, label, in_classes = np.unique(classes, return_inverse=True, return_counts=True)
    both = np.unique(cluster.astype(np.int64) * len(in_classes) + label, return_counts=True)[1]
    return Sizes(len(clusters), in_clusters, in_classes, both)


def mutual_information(sizes: Sizes) -> float:
    r"""Mutual information of clusters and classes in nats.

    .. math:: I = \frac1N \Bigl[ \sum_{ij} n_{ij} \log n_{ij} - \sum_i a_i \log a_i - \sum_j b_j \log b_j + N \log N
              \Bigr]

    ==========  ==========================================================
    a, b, n     sizes of clusters, of classes, and of what they share
    N           number of points
    ==========  ==========================================================
    """
    terms = _logs(sizes.both) + [-x for x in _logs(sizes.clusters) + _logs(sizes.classes)]
    return max(0.0, math.fsum([*terms, sizes.points * math.log(sizes.points)]) / sizes.points)


def mean_entropy(sizes: Sizes) -> float:
    """The mean of the entropies of clusters and classes in nats."""
    terms = [-x for x in _logs(sizes.clusters) + _logs(sizes.classes)]
    every = sizes.points * math.log(sizes.points)
    return math.fsum([*terms, every, every]) / (2 * sizes.points)


def expected_information(sizes: Sizes) -> float:
    r"""Mutual information that two partitions of these sizes have in the mean over all ways to deal the points.

    .. math:: E[I] = \sum_{ij} \sum_n P(n \mid a_i, b_j, N) \, \frac nN \log \frac{N n}{a_i b_j}

    with P hypergeometric. It depends on sizes alone, and 11,316 clusters have a few dozen different ones: equal sizes
    are computed once. P comes from the ratios of its neighbouring terms, divided by their sum.

    Reference:  Vinh et al., Information Theoretic Measures for Clusterings Comparison, JMLR 2010
    """
    total, terms = sizes.points, []
    class_sizes = np.stack(np.unique(sizes.classes, return_counts=True), axis=1).tolist()
    for a, clusters in np.stack(np.unique(sizes.clusters, return_counts=True), axis=1).tolist():
        for b, classes in class_sizes:
            shared = np.arange(max(0, a + b - total), min(a, b) + 1, dtype=np.float64)
            ups = (a - shared[:-1]) * (b - shared[:-1])
            downs = shared[1:] * (total - a - b + shared[1:])
            heights = np.concatenate([[0.0], np.cumsum(np.log(ups / downs))])
            weights = np.exp(heights - heights.max())
            # What is not shared gives no information: 0 log 0 is 0.
            values = shared / total * np.log(np.maximum(shared, 1) * (total / (a * b)))
            terms.append(clusters * classes * float((weights * values).sum() / weights.sum()))
    return math.fsum(terms)


def _logs(sizes: Numbers) -> list[float]:
    """The terms n log n, equal ones taken together; a list, to be added up exactly with others."""
    values, times = np.unique(sizes, return_counts=True)
    return [many * (size * math.log(size)) for size, many in zip(values.tolist(), times.tolist(), strict=True)]


def normalized_mutual_information(clusters: Numbers, classes: Numbers) -> float:
    """Mutual information over the mean of both entropies: 1 for identical partitions, 0 for independent ones.

    >>> normalized_mutual_information(np.array([0, 0, 1, 1]), np.array([5, 5, 7, 7]))
    1.0
    """
    sizes = count_sizes(clusters, classes)
    return 1.0 if sizes.are_identical else min(1.0, mutual_information(sizes) / mean_entropy(sizes))


def adjusted_mutual_information(clusters: Numbers, classes: Numbers) -> float:
    """Mutual information adjusted for chance: 1 for identical partitions, 0 for what dealing at random gives.

    >>> round(adjusted_mutual_information(np.array([0, 1, 0, 1]), np.array([5, 5, 7, 7])), 12)
    -0.5
    """
    sizes = count_sizes(clusters, classes)
    if sizes.are_identical:
        return 1.0
    expected = expected_information(sizes)
    return (mutual_information(sizes) - expected) / (mean_entropy(sizes) - expected)


def pair_counting_f1(clusters: Numbers, classes: Numbers) -> float:
    """F1 over pairs of points, where a pair is found if it shares a cluster and right if it shares a class.

    F = 2 TP / (pairs in one cluster + pairs in one class), which is 2 P R / (P + R) without its empty cases.

    Empty:  no pair that shares cluster and class gives 0, also when no class has two points

    >>> pair_counting_f1(np.array([0, 0, 1, 1]), np.array([5, 5, 7, 8]))
    0.6666666666666666
    """
    sizes = count_sizes(clusters, classes)
    both = _pairs(sizes.both)
    return 2 * both / (_pairs(sizes.clusters) + _pairs(sizes.classes)) if both else 0.0


def _pairs(counts: Numbers) -> int:
    # Python's whole numbers: 200,000 points of one class have more pairs than a 32-bit number holds.
    return sum(count * (count - 1) // 2 for count in counts.tolist())


def check_super_classes(classes: Numbers, super_classes: Numbers) -> None:
    """Refuse super-classes that are not unions of classes (SPEC 4.14).

    Raises: BatchError for another number of them, or for a class in two super-classes
    """
    if len(classes) != len(super_classes):
        raise BatchError(
            "there must be one super-label per label", got=f"{len(classes)} labels, {len(super_classes)} super-labels"
        )
    sizes = count_sizes(super_classes, classes)
    if len(sizes.both) > len(sizes.classes):
        raise BatchError(
            "each class must lie in one super-class",
            got=f"{len(sizes.both) - len(sizes.classes)} more pairs of class and super-class than classes",
            hint="Use a super-label that follows from the label.",
        )


class _Facts:
    """What a report needs to know of a score."""

    basis = "clusters"
    higher_is_better = True
    bounds = (0.0, 1.0)


class _SuperFacts(_Facts):
    """Scores whose classes are super-classes, and whose clusters are as many as those."""

    basis = "super_clusters"


@score("nmi")
class NMI(_Facts):
    """Normalised mutual information of clusters and classes (SPEC 4.3); not adjusted for chance.

    Empty:  one cluster and one class are identical partitions and give 1; one cluster of several classes gives 0
    """

    definition = "2 I(clusters, classes) / (H(clusters) + H(classes))"

    def __call__(self, clusters: Numbers, classes: Numbers) -> float:
        """One value for the whole clustering."""
        return normalized_mutual_information(clusters, classes)


@score("ami")
class AMI(_Facts):
    """Mutual information of clusters and classes, adjusted for chance; below 0 for less than chance.

    Empty:  one cluster and one class are identical partitions and give 1; one cluster of several classes gives 0
    """

    bounds = (-1.0, 1.0)
    definition = "(I - E[I]) / ((H(clusters) + H(classes)) / 2 - E[I]), E over all partitions of the same sizes"

    def __call__(self, clusters: Numbers, classes: Numbers) -> float:
        """One value for the whole clustering."""
        return adjusted_mutual_information(clusters, classes)


@score("f1")
class F1(_Facts):
    """Harmonic mean of precision and recall over pairs of points in one cluster (SPEC 4.4)."""

    definition = "2 P R / (P + R) over pairs; P of the pairs in one cluster, R of those in one class share both"

    def __call__(self, clusters: Numbers, classes: Numbers) -> float:
        """One value for the whole clustering."""
        return pair_counting_f1(clusters, classes)


@score("nmi_super")
class SuperNMI(_SuperFacts):
    """Normalised mutual information of clusters and super-classes, one cluster for each (SPEC 4.14)."""

    definition = "nmi with super-classes as the classes"

    def __call__(self, clusters: Numbers, super_classes: Numbers) -> float:
        """One value for the whole clustering."""
        return normalized_mutual_information(clusters, super_classes)


@score("f1_super")
class SuperF1(_SuperFacts):
    """Harmonic mean of precision and recall over pairs, of clusters and super-classes (SPEC 4.14)."""

    definition = "f1 with super-classes as the classes"

    def __call__(self, clusters: Numbers, super_classes: Numbers) -> float:
        """One value for the whole clustering."""
        return pair_counting_f1(clusters, super_classes)
