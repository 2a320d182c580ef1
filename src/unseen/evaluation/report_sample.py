"""A sample of a run for its report: embeddings for a map, queries with their neighbours, and failures."""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from PIL.Image import Resampling

from unseen.core.randomness import derive, numpy_generator
from unseen.data import Catalogue, Split
from unseen.evaluation.exact.arrays import Integers
from unseen.evaluation.exact.neighbours import nearest_neighbours
from unseen.evaluation.failure_sample import CheckedArrays, FailureSample, are_thumbnails
from unseen.evaluation.failures import failures
from unseen.evaluation.files import damaged, read_arrays, write_arrays

MAP_POINTS = 900
QUERIES = 12
NEIGHBOURS = 8
FAILURES = 8  # of each kind
THUMBNAIL = 48
MAP_THUMBNAIL = 24
_PREFIX = "failure_"
_WHAT = "a sample for a report"


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportSample(CheckedArrays):
    """Arrays for the report: M points on the map, Q queries with K neighbours each, grey or RGB thumbnails (uint8).

    Raises: DataError if the arrays disagree about M, Q or K
    """

    hint = "Pass M points, Q queries, Q x K neighbours, and uint8 thumbnails."

    map_embeddings: np.ndarray  # (M, D)
    map_labels: np.ndarray  # (M,)
    map_classes: np.ndarray  # (M,) names
    map_groups: np.ndarray  # (M,) names, all "" where there are no groups
    query_names: np.ndarray  # (Q,)
    query_classes: np.ndarray  # (Q,)
    neighbour_names: np.ndarray  # (Q, K)
    neighbour_classes: np.ndarray  # (Q, K)
    neighbour_right: np.ndarray  # (Q, K) bool
    neighbour_similarity: np.ndarray  # (Q, K)
    map_thumbnails: np.ndarray | None = None  # (M, h, w) or (M, h, w, 3)
    query_thumbnails: np.ndarray | None = None  # (Q, h, w) or (Q, h, w, 3)
    neighbour_thumbnails: np.ndarray | None = None  # (Q, K, h, w) or (Q, K, h, w, 3)
    failures: FailureSample | None = None  # None in older files

    def __post_init__(self) -> None:
        points, queries = self.map_labels.shape, self.query_names.shape
        neighbours = self.neighbour_right.shape
        self._check("map_labels", len(points) == 1)
        self._check("map_embeddings", self.map_embeddings.ndim == 2 and self.map_embeddings.shape[:1] == points)
        self._check("map_classes", self.map_classes.shape == points)
        self._check("map_groups", self.map_groups.shape == points)
        self._check("query_classes", len(queries) == 1 and self.query_classes.shape == queries)
        self._check("neighbour_right", len(neighbours) == 2 and neighbours[:1] == queries)
        for name in ("neighbour_names", "neighbour_classes", "neighbour_similarity"):
            self._check(name, getattr(self, name).shape == neighbours)
        for name, lead in (("map", points), ("query", queries), ("neighbour", neighbours)):
            thumbnails = getattr(self, f"{name}_thumbnails")
            if thumbnails is not None:
                self._check(f"{name}_thumbnails", are_thumbnails(thumbnails, lead))


def sample_for_report(embeddings: np.ndarray, catalogue: Catalogue, split: Split) -> ReportSample:
    """Sample the test side, the same for every method as it depends on the split alone, and find its failures."""
    generator = numpy_generator(derive(int(split.fingerprint, 16), "shown"))
    chosen = _complete_classes(catalogue.labels[split.test], generator)
    queries = np.searchsorted(split.test, generator.permutation(split.queries)[:QUERIES])
    gallery = np.searchsorted(split.test, split.gallery)
    labels = catalogue.labels[split.test]
    count = min(NEIGHBOURS, len(gallery) - 1)
    neighbours = nearest_neighbours(embeddings, labels, queries=queries, k=count, gallery=gallery)
    names = np.array(catalogue.ids, dtype=np.str_)[split.test]
    classes = np.array(catalogue.class_names, dtype=np.str_)[labels]
    groups = np.array(catalogue.class_groups or [""] * len(catalogue.class_names), dtype=np.str_)[labels]
    return ReportSample(
        map_embeddings=embeddings[chosen].astype(np.float32),
        map_labels=labels[chosen],
        map_classes=classes[chosen],
        map_groups=groups[chosen],
        map_thumbnails=_thumbnails(catalogue, split.test[chosen], MAP_THUMBNAIL),
        query_names=names[queries],
        query_classes=classes[queries],
        query_thumbnails=_thumbnails(catalogue, split.test[queries], THUMBNAIL),
        neighbour_names=names[neighbours.indices],
        neighbour_classes=classes[neighbours.indices],
        neighbour_right=np.asarray(neighbours.right),
        neighbour_similarity=np.asarray(neighbours.similarities, dtype=np.float32),
        neighbour_thumbnails=_thumbnails(catalogue, split.test[neighbours.indices], THUMBNAIL),
        failures=_failures(embeddings, catalogue, split, gallery),
    )


def _failures(embeddings: np.ndarray, catalogue: Catalogue, split: Split, gallery: Integers) -> FailureSample:
    labels = catalogue.labels[split.test]
    queries = np.searchsorted(split.test, split.queries)
    failed = failures(embeddings, labels, queries=queries, gallery=gallery, count=FAILURES)
    worst, confused, near = failed.worst, failed.confused, failed.near_duplicates
    nearest = np.empty((len(worst.query), 0), dtype=np.int64)
    similarity = np.empty(nearest.shape)
    if len(worst.query):
        neighbours = nearest_neighbours(embeddings, labels, queries=worst.query, k=NEIGHBOURS, gallery=gallery)
        nearest, similarity = neighbours.indices, neighbours.similarities
    tables = [
        np.column_stack([worst.query, worst.positive, nearest]),
        np.column_stack([confused.query, confused.item]),
        np.column_stack([near.first, near.second]),
    ]
    items = np.unique(np.concatenate([table.ravel() for table in tables]))
    class_queries = np.rint(confused.queries / confused.share).astype(np.int64)
    return FailureSample(
        names=np.array(catalogue.ids, dtype=np.str_)[split.test[items]],
        classes=np.array(catalogue.class_names, dtype=np.str_)[labels[items]],
        labels=labels[items],
        worst_items=np.searchsorted(items, tables[0]),
        worst_similarity=np.column_stack([worst.positive_similarity, similarity]),
        worst_rank=worst.rank,
        confused_items=np.searchsorted(items, tables[1]),
        confused_queries=np.column_stack([confused.queries, class_queries]),
        duplicate_items=np.searchsorted(items, tables[2]),
        duplicate_similarity=near.similarity,
        totals=np.array([failed.failed_queries, failed.queries, failed.confused_pairs, failed.duplicate_pairs]),
        duplicate_threshold=np.array(failed.duplicate_similarity),
        thumbnails=_thumbnails(catalogue, split.test[items], THUMBNAIL) if len(items) else None,
    )


def _thumbnails(catalogue: Catalogue, indices: np.ndarray, side: int) -> np.ndarray | None:
    pictures = []
    for index in indices.ravel():
        picture = catalogue.reader.image(int(index))
        if picture is None:
            return None
        pictures.append(np.asarray(picture.resize((side, side), Resampling.BILINEAR), dtype=np.uint8))
    return np.stack(pictures).reshape(*indices.shape, *pictures[0].shape)


def _complete_classes(labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Positions of all items of a few classes: single items of many classes would show no clusters."""
    order = generator.permutation(np.unique(labels))
    sizes = np.cumsum([np.count_nonzero(labels == label) for label in order])
    few = order[: max(2, int(np.searchsorted(sizes, MAP_POINTS, side="right")))]
    return np.flatnonzero(np.isin(labels, few))[:MAP_POINTS]


def save_report_sample(path: Path, sample: ReportSample) -> None:
    """Write the arrays to a compressed npz file, atomically; equal arrays give equal bytes."""
    arrays = {entry.name: getattr(sample, entry.name) for entry in fields(sample) if entry.name != "failures"}
    if sample.failures is not None:
        arrays |= {_PREFIX + entry.name: getattr(sample.failures, entry.name) for entry in fields(FailureSample)}
    write_arrays(path, {name: np.asarray(array) for name, array in arrays.items() if array is not None})


def load_report_sample(path: Path) -> ReportSample:
    """Read what `save_report_sample` wrote.

    Raises: DataError for a file that is missing, damaged, too large, or holds anything but these arrays
    """
    known = {entry.name for entry in fields(ReportSample)} - {"failures"}
    known_failures = {_PREFIX + entry.name for entry in fields(FailureSample)}
    stored = read_arrays(path, _WHAT)
    arrays = {name: array for name, array in stored.items() if name in known}
    parts = {name.removeprefix(_PREFIX): array for name, array in stored.items() if name in known_failures}
    try:
        return ReportSample(**arrays, failures=FailureSample(**parts) if parts else None)
    except (ValueError, TypeError, AttributeError) as problem:
        raise damaged(path, _WHAT, problem) from None
