"""A drop-in replacement for the AccuracyCalculator of pytorch-metric-learning, with exact scores.

A user of that library changes one import::

    from unseen.evaluation.pml_compat import AccuracyCalculator
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from unseen.core.checks import check_count
from unseen.core.errors import BatchError, ConfigError
from unseen.core.registry import nearest
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.directions import read_directions
from unseen.evaluation.exact.inputs import Embeddings, Labels, as_list, class_numbers, read_table
from unseen.evaluation.exact.kmeans import KMeans
from unseen.evaluation.exact.ranks import Ranks, rank_positives
from unseen.evaluation.scores.average_precision import expected_precision_sum
from unseen.evaluation.scores.clustering import adjusted_mutual_information, normalized_mutual_information
from unseen.evaluation.scores.precision import expected_hits
from unseen.evaluation.scores.reciprocal_rank import expected_reciprocal

Accuracy: TypeAlias = float | list[float]

# Functions of the ranks and of the number of ranks considered per query; every query has a positive.
_RETRIEVAL: dict[str, Callable[[Ranks, Integers], Floats]] = {
    "mean_average_precision": lambda ranks, k: expected_precision_sum(ranks, k) / ranks.positives,
    "mean_average_precision_at_r": lambda ranks, k: (
        expected_precision_sum(ranks, np.minimum(k, ranks.positives)) / ranks.positives
    ),
    "mean_reciprocal_rank": expected_reciprocal,
    "precision_at_1": lambda ranks, k: expected_hits(ranks, np.ones_like(k)),
    "r_precision": lambda ranks, k: (
        expected_hits(ranks, np.minimum(k, ranks.positives)) / np.minimum(k, ranks.positives)
    ),
}
_CLUSTERING: dict[str, Callable[[Integers, Integers], float]] = {
    "AMI": adjusted_mutual_information,
    "NMI": normalized_mutual_information,
}
_NAMES = (*_CLUSTERING, *_RETRIEVAL)
# Relative difference of lengths below which cosine and distance give the same ranking, except for ties.
_SAME_LENGTH = 1e-3


@dataclass(frozen=True)
class AccuracyCalculator:
    """The accuracies of pytorch-metric-learning under their names there.

    ================  ====================================================================================
    include           names to compute, all by default; ``exclude`` removes names
    avg_of_avgs       mean over classes of the mean over their queries, instead of the mean over queries
    return_per_class  a list with the mean of each class, in the order of the labels
    k                 number of neighbours: a number, "max_bin_count" (as many as the largest class has
                      positives), or None for all
    device            accepted and ignored; the computation is on the CPU
    ================  ====================================================================================

    Empty:      queries without a positive are left out; NaN where no query is left
    Reference:  Musgrave et al., PyTorch Metric Learning, arXiv:2008.09164
    Differs:    ties count with the mean over their orders, where faiss takes an arbitrary order. The order is by
                cosine, so embeddings of unequal lengths are refused. NMI and AMI use our k-means (`KMeans`) instead of
                faiss, and so other clusters. ``label_comparison_fn``, ``knn_func``,
                ``kmeans_func`` and metrics that a subclass adds are not supported
    Raises:     ConfigError for unknown or unsupported settings
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    avg_of_avgs: bool = False
    return_per_class: bool = False
    k: int | Literal["max_bin_count"] | None = None
    label_comparison_fn: None = None
    device: torch.device | str | None = None
    knn_func: None = None
    kmeans_func: None = None

    def __post_init__(self) -> None:
        for name in ("label_comparison_fn", "knn_func", "kmeans_func"):
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"AccuracyCalculator: {name} is not supported, as neighbours and clusters are exact and fixed here",
                    hint="Use pytorch_metric_learning's AccuracyCalculator for that.",
                )
        if self.avg_of_avgs and self.return_per_class:
            raise ConfigError(
                "AccuracyCalculator: avg_of_avgs and return_per_class exclude each other", hint="Set only one of them."
            )
        if self.k is not None and self.k != "max_bin_count":
            check_count("AccuracyCalculator", "k", self.k)
        _check_names("include", self.include)
        _check_names("exclude", self.exclude)

    def get_accuracy(
        self,
        query: Embeddings,
        query_labels: Labels,
        reference: Embeddings | None = None,
        reference_labels: Labels | None = None,
        ref_includes_query: bool = False,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> dict[str, Accuracy]:
        """The accuracies of the queries against the references, or against each other without references.

        With ``ref_includes_query`` the references begin with the queries, which are not compared with themselves.

        Raises: BatchError for embeddings or labels that do not fit together
        """
        _check_names("include", include)
        _check_names("exclude", exclude)
        allowed = [name for name in _NAMES if name in (self.include or _NAMES) and name not in self.exclude]
        wanted = [name for name in allowed if name in (include or allowed) and name not in exclude]
        accuracies: dict[str, Accuracy] = {}
        if any(name in _CLUSTERING for name in wanted):
            classes = class_numbers(query_labels)
            clusters = KMeans()(read_directions(query), len(np.unique(classes))).assignment
            accuracies |= {name: _CLUSTERING[name](clusters, classes) for name in wanted if name in _CLUSTERING}
        if any(name in _RETRIEVAL for name in wanted):
            ranks, classes = _ranks(query, query_labels, reference, reference_labels, ref_includes_query)
            accuracies |= self._retrieval([name for name in wanted if name in _RETRIEVAL], ranks, classes)
        return accuracies

    def _retrieval(self, names: Sequence[str], ranks: Ranks, classes: Integers) -> dict[str, Accuracy]:
        has_positive = ranks.positives > 0
        if not has_positive.any():
            undefined: Accuracy = [math.nan] * len(np.unique(classes)) if self.return_per_class else math.nan
            return dict.fromkeys(names, undefined)
        ranks, classes = ranks.select(has_positive), classes[has_positive]
        considered = ranks.candidates
        if self.k is not None:
            considered = np.minimum(considered, ranks.positives.max() if self.k == "max_bin_count" else self.k)
        return {name: self._averaged(_RETRIEVAL[name](ranks, considered), classes) for name in names}

    def _averaged(self, values: Floats, classes: Integers) -> Accuracy:
        if not (self.avg_of_avgs or self.return_per_class):
            return math.fsum(values) / len(values)
        order = np.argsort(classes, kind="stable")
        parts = np.split(values[order], np.flatnonzero(np.diff(classes[order])) + 1)
        means = [math.fsum(part) / len(part) for part in parts]
        return means if self.return_per_class else math.fsum(means) / len(means)


def _check_names(argument: str, names: object) -> None:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError(f"AccuracyCalculator: {argument} must be a tuple of names", got=names)
    for name in names:
        if name not in _NAMES:
            raise ConfigError(
                f"AccuracyCalculator: unknown metric '{name}'{nearest(str(name), list(_NAMES))}",
                hint=f"Choose from {', '.join(_NAMES)}.",
            )


def _ranks(
    query: Embeddings,
    query_labels: Labels,
    reference: Embeddings | None,
    reference_labels: Labels | None,
    ref_includes_query: bool,
) -> tuple[Ranks, Integers]:
    """The ranks of the positives of each query, and the queries' classes."""
    if reference is None or reference_labels is None:
        if reference is not None or reference_labels is not None:
            raise BatchError("reference and reference_labels must be passed together, or neither")
        _check_norms(query)
        table = read_table(query, query_labels)
    elif ref_includes_query:
        _check_first(query, query_labels, reference, reference_labels)
        _check_norms(reference)
        table = read_table(reference, reference_labels, queries=range(len(query)))
    else:
        _check_norms(reference)
        table = read_table(query, query_labels, gallery=(reference, reference_labels))
    return rank_positives(table), table.classes[table.queries]


def _check_first(query: Embeddings, query_labels: Labels, reference: Embeddings, reference_labels: Labels) -> None:
    count = len(query)
    is_first = count <= len(reference) and np.allclose(_array(query), _array(reference[:count]))
    if not (is_first and as_list(query_labels) == as_list(reference_labels)[:count]):
        raise BatchError(
            "with ref_includes_query the references must begin with the queries and their labels",
            hint="Pass torch.cat([query, others]) as reference, or ref_includes_query=False.",
        )


def _check_norms(embeddings: Embeddings) -> None:
    lengths = np.linalg.norm(_array(embeddings), axis=-1)
    low, high = float(lengths.min(initial=np.inf)), float(lengths.max(initial=0))
    if high - low > _SAME_LENGTH * high:
        raise BatchError(
            "embeddings must have equal lengths, as only then distance and cosine give the same ranking",
            got=f"lengths from {low:.3g} to {high:.3g}",
            hint="Apply torch.nn.functional.normalize(embeddings).",
        )


def _array(embeddings: Embeddings) -> NDArray[Any]:
    return embeddings.detach().cpu().float().numpy() if isinstance(embeddings, torch.Tensor) else np.asarray(embeddings)
