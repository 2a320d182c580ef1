"""What a report shows of a run: a sample of embeddings for a map, and queries with their nearest neighbours."""

import io
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from PIL.Image import Resampling

from unseen.core.errors import DataError
from unseen.core.files import write_bytes
from unseen.core.randomness import derive, numpy_generator
from unseen.data import Catalogue, Split
from unseen.evaluation.neighbours import nearest_neighbours

MAP_POINTS = 1200
QUERIES = 12
NEIGHBOURS = 8
THUMBNAIL = 48
MAP_THUMBNAIL = 24


@dataclass(frozen=True, eq=False, kw_only=True)
class Shown:
    """Arrays of a run's test side; thumbnails are grey (…, h, w) or colour (…, h, w, 3), or None for data without pictures.

    ===========  ==============================================================
    map_*        M sampled items: embeddings (M, D), classes, groups, thumbnails
    query_*      Q sampled queries
    neighbour_*  the K nearest of each query, nearest first: (Q, K)
    ===========  ==============================================================
    """

    map_embeddings: np.ndarray
    map_labels: np.ndarray
    map_classes: np.ndarray
    map_groups: np.ndarray
    map_thumbnails: np.ndarray | None
    query_names: np.ndarray
    query_classes: np.ndarray
    query_thumbnails: np.ndarray | None
    neighbour_names: np.ndarray
    neighbour_classes: np.ndarray
    neighbour_right: np.ndarray
    neighbour_similarity: np.ndarray
    neighbour_thumbnails: np.ndarray | None


def show(embeddings: np.ndarray, catalogue: Catalogue, split: Split) -> Shown:
    """A sample of the test side; it depends on the split alone, so that methods are shown on the same items."""
    generator = numpy_generator(derive(int(split.fingerprint, 16), "shown"))
    place = {int(index): position for position, index in enumerate(split.test)}
    chosen = np.sort(generator.permutation(len(split.test))[:MAP_POINTS])
    asked = [place[int(index)] for index in generator.permutation(split.queries)[:QUERIES]]
    gallery = np.array([place[int(index)] for index in split.gallery])
    labels = catalogue.labels[split.test]
    count = min(NEIGHBOURS, len(gallery) - 1)
    found = nearest_neighbours(embeddings, labels, queries=np.array(asked), k=count, gallery=gallery)
    names = np.array(catalogue.ids, dtype=np.str_)[split.test]
    classes = np.array(catalogue.class_names, dtype=np.str_)[labels]
    groups = np.array(catalogue.class_groups or [""] * len(catalogue.class_names), dtype=np.str_)[labels]
    return Shown(
        map_embeddings=embeddings[chosen].astype(np.float32),
        map_labels=labels[chosen],
        map_classes=classes[chosen],
        map_groups=groups[chosen],
        map_thumbnails=_thumbnails(catalogue, split.test[chosen], MAP_THUMBNAIL),
        query_names=names[asked],
        query_classes=classes[asked],
        query_thumbnails=_thumbnails(catalogue, split.test[asked], THUMBNAIL),
        neighbour_names=names[found.indices],
        neighbour_classes=classes[found.indices],
        neighbour_right=np.asarray(found.right),
        neighbour_similarity=np.asarray(found.similarities, dtype=np.float32),
        neighbour_thumbnails=_thumbnails(catalogue, split.test[found.indices], THUMBNAIL),
    )


def _thumbnails(catalogue: Catalogue, indices: np.ndarray, side: int) -> np.ndarray | None:
    pictures = []
    for index in indices.ravel():
        picture = catalogue.source.image(int(index))
        if picture is None:
            return None
        grown = picture.resize((side, side), Resampling.BILINEAR)
        pictures.append(np.asarray(grown, dtype=np.uint8))
    return np.stack(pictures).reshape(*indices.shape, *pictures[0].shape)


def save_shown(path: Path, shown: Shown) -> None:
    """Write the arrays as an npz file without pickle, in one step."""
    buffer = io.BytesIO()
    arrays = {each.name: getattr(shown, each.name) for each in fields(Shown)}
    np.savez_compressed(buffer, allow_pickle=False, **{name: each for name, each in arrays.items() if each is not None})
    write_bytes(path, buffer.getvalue())


def load_shown(path: Path) -> Shown:
    """Read what `save_shown` wrote."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return Shown(**{each.name: arrays.get(each.name) for each in fields(Shown)})
    except (OSError, ValueError) as problem:
        raise DataError(f"{path} is not a readable sample of a run: {problem}") from None
