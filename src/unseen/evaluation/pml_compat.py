"""Familiar names: pytorch-metric-learning's AccuracyCalculator, answered by this package.

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
from unseen.evaluation.exact.directions import read_directions
from unseen.evaluation.exact.inputs import Embeddings, Labels, class_numbers, read_table
from unseen.evaluation.exact.kmeans import KMeans
from unseen.evaluation.exact.ranks import Ranks, rank_positives
from unseen.evaluation.scores.clustering import adjusted_mutual_information, normalized_mutual_information
from unseen.evaluation.scores.reciprocal_rank import expected_reciprocal
from unseen.evaluation.scores.retrieval import expected_hits, expected_precision_sum

Whole = NDArray[np.int64]
Values = NDArray[np.float64]
Accuracy: TypeAlias = float | list[float]

# Each is a function of the ranks and of the places that are looked at; every query has a positive.
_RETRIEVAL: dict[str, Callable[[Ranks, Whole], Values]] = {
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
_CLUSTERING: dict[str, Callable[[Whole, Whole], float]] = {
    "AMI": adjusted_mutual_information,
    "NMI": normalized_mutual_information,
}
_NAMES = (*_CLUSTERING, *_RETRIEVAL)
# Relative difference of lengths below which cosine and distance rank alike but for ties.
_SAME_LENGTH = 1e-3


@dataclass(frozen=True)
class AccuracyCalculator:
    """The accuracies of pytorch-metric-learning under their names there.

    ================  ====================================================================================
    include           names to compute, all by default; ``exclude`` takes names away
    avg_of_avgs       mean over classes of the mean over their queries, instead of the mean over queries
    return_per_class  a list with the mean of each class, in the order of the labels
    k                 neighbours that are looked at: a number, "max_bin_count" (as many as the largest class
                      has positives), or None for all
    device            accepted, as the results do not depend on it; the work is done on the CPU
    ================  ====================================================================================

    Empty:      queries without a positive are left out; NaN where no query is left
    Reference:  Musgrave et al., PyTorch Metric Learning, arXiv:2008.09164
    Differs:    items of equal similarity count with the mean over their orders, where faiss takes them as they come.
                Order is by cosine, so embeddings of unequal lengths are refused. NMI and AMI come from our k-means
                (`KMeans`) instead of faiss, and so from other clusters. ``label_comparison_fn``, ``knn_func``,
                ``kmeans_func`` and metrics that a subclass adds are not supported
    Raises:     ConfigError for settings that are unknown or not supported
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
                    hint="Use pytorch_metric_learning's AccuracyCalculator for it.",
                )
        if self.avg_of_avgs and self.return_per_class:
            raise ConfigError(
                "AccuracyCalculator: avg_of_avgs and return_per_class exclude each other", hint="Use one."
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
        """The accuracies of the queries among the references, or among each other without references.

        With ``ref_includes_query`` the queries are the first of the references, and do not answer themselves.

        Raises: BatchError for embeddings or labels that do not fit
        """
        _check_names("include", include)
        _check_names("exclude", exclude)
        known = [name for name in _NAMES if name in (self.include or _NAMES) and name not in self.exclude]
        wanted = [name for name in known if name in (include or known) and name not in exclude]
        found: dict[str, Accuracy] = {}
        if any(name in _CLUSTERING for name in wanted):
            classes = class_numbers(query_labels)
            clusters = KMeans()(read_directions(query), len(np.unique(classes))).assignment
            found |= {name: _CLUSTERING[name](clusters, classes) for name in wanted if name in _CLUSTERING}
        if any(name in _RETRIEVAL for name in wanted):
            ranks, classes = _ranks(query, query_labels, reference, reference_labels, ref_includes_query)
            found |= self._retrieval([name for name in wanted if name in _RETRIEVAL], ranks, classes)
        return found

    def _retrieval(self, names: Sequence[str], ranks: Ranks, classes: Whole) -> dict[str, Accuracy]:
        has_positive = ranks.positives > 0
        if not has_positive.any():
            nothing: Accuracy = [math.nan] * len(np.unique(classes)) if self.return_per_class else math.nan
            return dict.fromkeys(names, nothing)
        ranks, classes = ranks.only(has_positive), classes[has_positive]
        places = ranks.candidates
        if self.k is not None:
            places = np.minimum(places, ranks.positives.max() if self.k == "max_bin_count" else self.k)
        return {name: self._averaged(_RETRIEVAL[name](ranks, places), classes) for name in names}

    def _averaged(self, values: Values, classes: Whole) -> Accuracy:
        if not (self.avg_of_avgs or self.return_per_class):
            return math.fsum(values) / len(values)
        order = np.argsort(classes, kind="stable")
        parts = np.split(values[order], np.flatnonzero(np.diff(classes[order])) + 1)
        means = [math.fsum(part) / len(part) for part in parts]
        return means if self.return_per_class else math.fsum(means) / len(means)


def _check_names(argument: str, names: Any) -> None:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError(f"AccuracyCalculator: {argument} must be a tuple of names", got=names)
    for name in names:
        if name not in _NAMES:
            raise ConfigError(
                f"AccuracyCalculator: unknown metric '{name}'{nearest(str(name), list(_NAMES))}",
                hint=f"Use one of {', '.join(_NAMES)}.",
            )


def _ranks(
    query: Embeddings,
    query_labels: Labels,
    reference: Embeddings | None,
    reference_labels: Labels | None,
    ref_includes_query: bool,
) -> tuple[Ranks, Whole]:
    """The ranks of the positives of each query, and the queries' classes."""
    if reference is None or reference_labels is None:
        if reference is not None or reference_labels is not None:
            raise BatchError("reference and reference_labels must be given together, or neither")
        _check_lengths(query)
        table = read_table(query, query_labels)
    elif ref_includes_query:
        _check_first(query, query_labels, reference, reference_labels)
        _check_lengths(reference)
        table = read_table(reference, reference_labels, queries=range(len(query)))
    else:
        _check_lengths(reference)
        table = read_table(query, query_labels, gallery=(reference, reference_labels))
    return rank_positives(table), table.classes[table.queries]


def _check_first(query: Embeddings, query_labels: Labels, reference: Embeddings, reference_labels: Labels) -> None:
    count = len(query)
    is_first = count <= len(reference) and np.allclose(_array(query), _array(reference[:count]))
    if not (is_first and list(map(_plain, query_labels)) == list(map(_plain, reference_labels[:count]))):
        raise BatchError(
            "with ref_includes_query the references must begin with the queries and their labels",
            hint="Use torch.cat([query, others]), or ref_includes_query=False.",
        )


def _check_lengths(embeddings: Embeddings) -> None:
    lengths = np.linalg.norm(_array(embeddings), axis=-1)
    low, high = float(lengths.min(initial=np.inf)), float(lengths.max(initial=0))
    if high - low > _SAME_LENGTH * high:
        raise BatchError(
            "embeddings that are searched must have one length, as distance and cosine rank alike only then",
            got=f"lengths from {low:.3g} to {high:.3g}",
            hint="Use torch.nn.functional.normalize(embeddings).",
        )


def _array(embeddings: Embeddings) -> NDArray[Any]:
    return embeddings.detach().cpu().float().numpy() if isinstance(embeddings, torch.Tensor) else np.asarray(embeddings)


def _plain(label: Any) -> Any:
    return label.item() if hasattr(label, "item") else label
