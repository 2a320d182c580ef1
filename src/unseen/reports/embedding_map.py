"""Maps of embeddings: t-SNE where openTSNE is installed, else principal components; same map for same points."""

import hashlib
from dataclasses import dataclass

import numpy as np

from unseen.core.text import cut, isolated
from unseen.evaluation.report_sample import ReportSample
from unseen.figures.drawing import COLOURS, Drawing, Path, Picture, mark
from unseen.figures.projection import project
from unseen.reports.thumbnails import as_grey, find_ink, photograph, tinted

MOST_POINTS = 1500
MOST_PICTURES = 260
SIZE = 640.0
PICTURE = 27.0
# Fixed shades between the light and the dark variants of the style sheet (after Okabe and Ito), for tinted pictures.
SHADES = ((30, 125, 196), (213, 94, 0), (0, 150, 112), (196, 98, 152), (217, 142, 0), (72, 164, 216))


@dataclass(frozen=True)
class Hue:
    """A name in the legend and the position of its colour."""

    name: str
    colour: int


@dataclass(frozen=True, eq=False)
class Map:
    """A drawn map and what must be said of it."""

    drawing: Drawing
    method: str
    points: int
    classes: int


def sample(labels: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """Positions of at most `most` points: whole classes, in an order that only their labels decide.

    Whole classes, since a map of one point a class would show no class at all.
    """
    if len(labels) <= most:
        return np.arange(len(labels))
    names = sorted(
        {str(label) for label in labels},
        key=lambda name: hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest(),
    )
    words = np.array([str(label) for label in labels])
    chosen: list[int] = []
    for name in names:
        own = np.flatnonzero(words == name).tolist()
        if len(chosen) + len(own) <= most or not chosen:
            chosen.extend(own[:most])
    return np.array(sorted(chosen))


def hues(shown: ReportSample, chosen: np.ndarray) -> tuple[np.ndarray, tuple[Hue, ...]]:
    """The colour of each chosen point, and a legend.

    Groups colour where there are two or more, else classes; when there are more names than colours they repeat,
    and the legend is empty, as it could not tell them apart.
    """
    groups = np.array([str(group) for group in shown.map_groups])
    names = groups if len(set(groups)) > 1 else np.array([str(name) for name in shown.map_classes])
    known = sorted(set(names))
    position = {name: index % COLOURS for index, name in enumerate(known)}
    legend = tuple(Hue(name or "no group", position[name]) for name in known) if len(known) <= COLOURS else ()
    return np.array([position[names[index]] for index in chosen]), legend


def fitted(places: np.ndarray) -> np.ndarray:
    """The places moved and scaled into the drawing, with room for a picture at its border."""
    low, high = places.min(axis=0), places.max(axis=0)
    span = float((high - low).max()) or 1.0
    return (places - (low + high) / 2) / span * (SIZE - 1.4 * PICTURE) + SIZE / 2


def pictured(places: np.ndarray) -> list[int]:
    """Positions of points that get a picture: such that no two pictures cover each other much."""
    order = sorted(range(len(places)), key=lambda index: hashlib.sha256(str(index).encode()).digest())
    taken: list[int] = []
    for index in order:
        if len(taken) == MOST_PICTURES:
            break
        if not taken or np.abs(places[taken] - places[index]).max(axis=1).min() >= 0.8 * PICTURE:
            taken.append(index)
    return sorted(taken)


def draw_map(shown: ReportSample, method: str) -> tuple[Map, str, tuple[Hue, ...]] | None:
    """The map of one run, how it was projected, and its legend; None without points or with non-finite ones."""
    if len(shown.map_labels) == 0 or not np.isfinite(shown.map_embeddings).all():
        return None
    chosen = sample(shown.map_labels)
    flat_places, how = project(shown.map_embeddings[chosen])
    places = fitted(flat_places)
    colours, legend = hues(shown, chosen)
    classes = len(set(shown.map_labels[chosen].tolist()))
    drawing = Drawing(SIZE, SIZE, f"Map of {len(chosen)} test embeddings of {isolated(method)}")
    has_pictures = shown.map_thumbnails is not None
    with_picture = pictured(places) if has_pictures else []
    bare = sorted(set(range(len(chosen))) - set(with_picture))
    for index in bare:
        x, y = places[index]
        # With pictures the dots are a backdrop, and need no words of their own.
        title = "" if has_pictures else _words(shown, int(chosen[index]))
        css = "backdrop" if has_pictures else "point"
        drawing.paths.append(Path(mark(x, y, 2.0 if has_pictures else 3.0), f"{css} c{colours[index]}", title))
    if shown.map_thumbnails is not None:
        images = as_grey(shown.map_thumbnails)
        ink = find_ink(images)
        for index in with_picture:
            x, y = places[index]
            image = images[chosen[index]]
            uri = tinted(image, ink, SHADES[colours[index]], 28) if ink else photograph(image, 28, 32)
            scale = PICTURE / max(image.shape[:2])
            height, width = image.shape[0] * scale, image.shape[1] * scale
            frame = "" if ink else f"c{colours[index]}"
            words = _words(shown, int(chosen[index]))
            drawing.pictures.append(Picture(x - width / 2, y - height / 2, width, height, uri, words, frame))
    return Map(drawing, method, len(chosen), classes), how, legend


def _words(shown: ReportSample, index: int) -> str:
    group = str(shown.map_groups[index])
    name = isolated(cut(str(shown.map_classes[index]), 200))
    return f"{name}, {isolated(cut(group, 200))}" if group else name
