"""Maps of embeddings: t-SNE where openTSNE is installed, else principal components; same map for same points."""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unseen.core.text import cut, isolated
from unseen.evaluation.report_sample import ReportSample
from unseen.figures.projection import project
from unseen.figures.style import SERIES
from unseen.reports.thumbnails import as_grey, drawing_background, photograph, tinted

MOST_POINTS = 1500
MOST_PICTURES = 260
SIZE = 640.0
PICTURE = 27.0
# For tinted pictures: shades between the light and the dark series colours of the style sheet.
SHADES = ((30, 125, 196), (213, 94, 0), (0, 150, 112), (196, 98, 152), (217, 142, 0), (72, 164, 216))


class LegendItem(NamedTuple):
    """A name in the legend and the position of its colour."""

    name: str
    colour: int


class MapPoint(NamedTuple):
    """An embedding at (x, y): a dot, or a thumbnail where it has a `uri`."""

    x: float
    y: float
    colour: int
    title: str
    uri: str = ""
    width: float = 0.0
    height: float = 0.0


@dataclass(frozen=True, eq=False)
class EmbeddingMap:
    """The embeddings of one run in the plane; pictures that could not be tinted have a frame in their colour."""

    description: str
    how: str
    classes: int
    points: tuple[MapPoint, ...]
    pictures: tuple[MapPoint, ...]
    is_framed: bool
    legend: tuple[LegendItem, ...]
    size: float = SIZE

    @property
    def items(self) -> int:
        """How many embeddings it shows."""
        return len(self.points) + len(self.pictures)


def choose_points(labels: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """Positions of at most `most` points: whole classes, in an order that depends only on their labels.

    Whole classes, since a map with one point per class would show no class at all.
    """
    if len(labels) <= most:
        return np.arange(len(labels))
    strings = np.array([str(label) for label in labels])
    names = sorted(
        set(strings.tolist()), key=lambda name: hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    )
    chosen: list[int] = []
    for name in names:
        own = np.flatnonzero(strings == name).tolist()
        if len(chosen) + len(own) <= most or not chosen:
            chosen.extend(own[:most])
    return np.array(sorted(chosen))


def colour_points(sample: ReportSample, chosen: np.ndarray) -> tuple[np.ndarray, tuple[LegendItem, ...]]:
    """The colour of each chosen point, and a legend.

    Groups decide the colour where there are two or more, else classes. Where there are more names than colours, the
    colours repeat and the legend is empty.
    """
    groups = np.array([str(group) for group in sample.map_groups])
    names = groups if len(set(groups)) > 1 else np.array([str(name) for name in sample.map_classes])
    known = sorted(set(names))
    position = {name: index % len(SERIES) for index, name in enumerate(known)}
    items = (LegendItem(name or "no group", position[name]) for name in known)
    legend = tuple(items) if len(known) <= len(SERIES) else ()
    return np.array([position[names[index]] for index in chosen]), legend


def fit_to_map(positions: np.ndarray) -> np.ndarray:
    """The positions moved and scaled into the map, with room for a picture at its border."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    span = float((high - low).max()) or 1.0
    return (positions - (low + high) / 2) / span * (SIZE - 1.4 * PICTURE) + SIZE / 2


def choose_pictured(positions: np.ndarray) -> list[int]:
    """The points that get a picture: chosen so that no two pictures cover each other much."""
    order = sorted(range(len(positions)), key=lambda index: hashlib.sha256(str(index).encode()).digest())
    taken: list[int] = []
    for index in order:
        if len(taken) == MOST_PICTURES:
            break
        if not taken or np.abs(positions[taken] - positions[index]).max(axis=1).min() >= 0.8 * PICTURE:
            taken.append(index)
    return sorted(taken)


def embedding_map(sample: ReportSample, method: str) -> EmbeddingMap | None:
    """The map of one run; None without embeddings or with non-finite ones."""
    if len(sample.map_labels) == 0 or not np.isfinite(sample.map_embeddings).all():
        return None
    chosen = choose_points(sample.map_labels)
    projected, how = project(sample.map_embeddings[chosen])
    positions = fit_to_map(projected)
    colours, legend = colour_points(sample, chosen)
    points = {
        index: MapPoint(float(x), float(y), int(colour), _title(sample, int(item)))
        for index, ((x, y), colour, item) in enumerate(zip(positions, colours, chosen, strict=True))
    }
    pictures = []
    background = None
    if sample.map_thumbnails is not None:
        images = as_grey(sample.map_thumbnails)
        background = drawing_background(images)
        pictured = choose_pictured(positions)
        pictures = [_with_picture(points.pop(index), images[chosen[index]], background) for index in pictured]
        # Beside pictures the dots are a backdrop and need no titles.
        points = {index: point._replace(title="") for index, point in points.items()}
    return EmbeddingMap(
        description=f"Map of {len(chosen)} test embeddings of {isolated(method)}",
        how=how,
        classes=len(set(sample.map_labels[chosen].tolist())),
        points=tuple(points.values()),
        pictures=tuple(pictures),
        is_framed=background is None,
        legend=legend,
    )


def _with_picture(point: MapPoint, image: np.ndarray, background: int | None) -> MapPoint:
    if background is None:
        uri = photograph(image, 28, 32)
    else:
        uri = tinted(image, background, SHADES[point.colour], 28)
    height, width = (side * PICTURE / max(image.shape[:2]) for side in image.shape[:2])
    return MapPoint(point.x - width / 2, point.y - height / 2, point.colour, point.title, uri, width, height)


def _title(sample: ReportSample, index: int) -> str:
    group = str(sample.map_groups[index])
    name = isolated(cut(str(sample.map_classes[index]), 200))
    return f"{name}, {isolated(cut(group, 200))}" if group else name
