"""Clustering scores: agreement of k-means clusters with the classes, or with super-classes.

All are functions of the sizes of clusters, of classes and of their intersections. NMI and AMI equal scikit-learn's to
1e-12 and 1e-10, but are computed here by exactly rounded sums over sizes: no score depends, not even in its last bit,
on the order of the points or on the numbering of either partition.
"""

import math
from typing import NamedTuple

import numpy as np

from unseen.core.errors import BatchError
from unseen.core.registry import score
from unseen.evaluation.exact.arrays import Integers
from unseen.evaluation.scores.base import Score


class Sizes(NamedTuple):
    """Number of points, and sizes of the clusters, of the classes and of their non-empty intersections."""

    points: int
    clusters: Integers
    classes: Integers
    both: Integers

    @property
    def are_identical(self) -> bool:
        """Whether clusters and classes are the same partition."""
        return len(self.clusters) == len(self.classes) == len(self.both)


def count_sizes(clusters: Integers, classes: Integers) -> Sizes:
    """The sizes of two partitions and of their intersections."""
    _, cluster, in_clusters = np.unique(clusters, return_inverse=True, return_counts=True)
    _, label, in_classes = np.unique(classes, return_inverse=True, return_counts=True)
    both = np.unique(cluster.astype(np.int64) * len(in_classes) + label, return_counts=True)[1]
    return Sizes(len(clusters), in_clusters, in_classes, both)


def mutual_information(sizes: Sizes) -> float:
    r"""Mutual information of clusters and classes in nats.

    .. math:: I = \frac1N \Bigl[ \sum_{ij} n_{ij} \log n_{ij} - \sum_i a_i \log a_i - \sum_j b_j \log b_j + N \log N
              \Bigr]

    with the sizes a of clusters, b of classes and n of their intersections, and N points.
    """
    terms = _log_terms(sizes.both) + [-x for x in _log_terms(sizes.clusters) + _log_terms(sizes.classes)]
    return max(0.0, math.fsum([*terms, sizes.points * math.log(sizes.points)]) / sizes.points)


def mean_entropy(sizes: Sizes) -> float:
    """The mean of the entropies of clusters and classes in nats."""
    terms = [-x for x in _log_terms(sizes.clusters) + _log_terms(sizes.classes)]
    total = sizes.points * math.log(sizes.points)
    return math.fsum([*terms, total, total]) / (2 * sizes.points)


def expected_information(sizes: Sizes) -> float:
    r"""Expected mutual information of two random partitions with these sizes.

    .. math:: E[I] = \sum_{ij} \sum_n P(n \mid a_i, b_j, N) \, \frac nN \log \frac{N n}{a_i b_j}

    with P hypergeometric. It depends on sizes alone, and 11,316 clusters have a few dozen distinct ones: equal sizes
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
            log_weights = np.concatenate([[0.0], np.cumsum(np.log(ups / downs))])
            weights = np.exp(log_weights - log_weights.max())
            # An empty intersection has no information: 0 log 0 is 0.
            values = shared / total * np.log(np.maximum(shared, 1) * (total / (a * b)))
            terms.append(clusters * classes * float((weights * values).sum() / weights.sum()))
    return math.fsum(terms)


def _log_terms(sizes: Integers) -> list[float]:
    """The terms n log n, equal ones combined."""
    values, times = np.unique(sizes, return_counts=True)
    return [many * (size * math.log(size)) for size, many in zip(values.tolist(), times.tolist(), strict=True)]


def normalized_mutual_information(clusters: Integers, classes: Integers) -> float:
    """Mutual information over the mean of both entropies: 1 for identical partitions, 0 for independent ones.

    >>> normalized_mutual_information(np.array([0, 0, 1, 1]), np.array([5, 5, 7, 7]))
    1.0
    """
    sizes = count_sizes(clusters, classes)
    return 1.0 if sizes.are_identical else min(1.0, mutual_information(sizes) / mean_entropy(sizes))


def adjusted_mutual_information(clusters: Integers, classes: Integers) -> float:
    """Mutual information adjusted for chance: 1 for identical partitions, 0 on average for random ones.

    >>> round(adjusted_mutual_information(np.array([0, 1, 0, 1]), np.array([5, 5, 7, 7])), 12)
    -0.5
    """
    sizes = count_sizes(clusters, classes)
    if sizes.are_identical:
        return 1.0
    expected = expected_information(sizes)
    return (mutual_information(sizes) - expected) / (mean_entropy(sizes) - expected)


def pair_counting_f1(clusters: Integers, classes: Integers) -> float:
    """F1 over pairs of points: predicted if they share a cluster, correct if they share a class.

    Empty:  0 if no pair shares cluster and class, also when no class has two points

    >>> pair_counting_f1(np.array([0, 0, 1, 1]), np.array([5, 5, 7, 8]))
    0.6666666666666666
    """
    sizes = count_sizes(clusters, classes)
    in_clusters, in_classes, in_both = (int((part * (part - 1)).sum()) for part in sizes[1:])
    # True positives are the pairs in both; false ones are the other pairs of a cluster, or of a class.
    return 2 * in_both / (in_clusters + in_classes) if in_both else 0.0


def check_super_classes(classes: Integers, super_classes: Integers) -> None:
    """Refuse super-classes that are not unions of classes.

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
            hint="Give all rows of a class the same super-label.",
        )


@score("nmi")
class NMI(Score):
    """Normalised mutual information of clusters and classes; not adjusted for chance.

    Empty:  one cluster and one class are identical partitions: 1; one cluster of several classes: 0
    """

    basis = "clusters"
    collapsed = 0.0
    definition = "2 I(clusters, classes) / (H(clusters) + H(classes))"
    __call__ = staticmethod(normalized_mutual_information)


@score("ami")
class AMI(Score):
    """Mutual information of clusters and classes, adjusted for chance; negative below chance.

    Empty:  one cluster and one class are identical partitions: 1; one cluster of several classes: 0
    """

    basis = "clusters"
    bounds = (-1.0, 1.0)
    collapsed = 0.0
    definition = "(I - E[I]) / ((H(clusters) + H(classes)) / 2 - E[I]), E over all partitions of the same sizes"
    __call__ = staticmethod(adjusted_mutual_information)


@score("f1")
class F1(Score):
    """Harmonic mean of precision and recall over pairs of points in one cluster."""

    basis = "clusters"
    collapsed = "one cluster"
    definition = "2 P R / (P + R) over pairs; P of the pairs in one cluster, R of those in one class share both"
    __call__ = staticmethod(pair_counting_f1)


@score("nmi_super")
class SuperNMI(NMI):
    """Normalised mutual information of clusters and super-classes, with one cluster per super-class."""

    basis = "super_clusters"
    definition = "nmi with super-classes as the classes"


@score("f1_super")
class SuperF1(F1):
    """Harmonic mean of precision and recall over pairs, for clusters and super-classes."""

    basis = "super_clusters"
    definition = "f1 with super-classes as the classes"
