"""Figures of a ladder: distance over its steps, and maps of rungs with training and test images coloured."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, numpy_generator
from unseen.data.catalogue import Catalogue
from unseen.figures.projection import project
from unseen.figures.style import BLUE, GREEN, GREY, INK, ORANGE, WASH, label, panels
from unseen.shifts import Ladder, Rung, split_of_rung

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Projection = Callable[[np.ndarray], tuple[np.ndarray, str]]

MAX_POINTS = 1500
_LEVELS = (("class_distance", "class means", INK), ("sample_distance", "samples", GREEN))
_SIDES = (("on neither side", GREY, 4), ("training classes", BLUE, 9), ("test classes", ORANGE, 9))


def distance_figure(ladder: Ladder) -> "Figure":
    """The Frechet distances of every step, both levels, the rungs marked and numbered."""
    figure, [[axes]] = panels(1, 1, width=9, height=4.6)
    names = [step.name for step in ladder.steps]
    rung_positions = [names.index(rung.step) for rung in ladder.rungs]
    for level, title, colour in _LEVELS:
        values = {index: getattr(step, level) for index, step in enumerate(ladder.steps)}
        measured = {index: value for index, value in values.items() if value is not None}
        axes.plot(list(measured), list(measured.values()), ".-", color=colour, linewidth=1.4, markersize=3, label=title)
        axes.plot(rung_positions, [getattr(rung, level) for rung in ladder.rungs], "o", color=colour, markersize=5)
    for number, (position, rung) in enumerate(zip(rung_positions, ladder.rungs, strict=True), start=1):
        lower = min(rung.class_distance, rung.sample_distance)
        axes.annotate(str(number), (position, lower), (0, -6), textcoords="offset points", ha="center", va="top")
    if ladder.is_by_groups:
        axes.set_xticks(range(len(names)), [label(name) for name in names], fontsize=8)
        axes.tick_params(axis="x", labelrotation=90 if len(names) > 9 else 0)
        axes.set_xlabel("step: the group of the test classes; all other groups train")
    else:
        _mark_swaps(axes, names)
    axes.set_ylabel("Frechet distance of training and test")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.set_title(f"Ladder of {label(ladder.data['name'], 60)}: {len(ladder.rungs)} rungs", loc="left", fontsize=11)
    axes.legend(frameon=False, loc="upper left", title="distance of")
    return figure


def _mark_swaps(axes: "Axes", names: Sequence[str]) -> None:
    """The steps of class swaps along the horizontal axis, the start, and where classes are removed."""
    first_removal = next((index for index, name in enumerate(names) if name.startswith("R")), None)
    axes.axvline(names.index("0"), color=GREY, linewidth=0.8)
    if first_removal is not None:
        axes.axvspan(first_removal - 0.5, len(names) - 0.5, color=WASH, zorder=0)
    every = max(1, -(-len(names) // 16))
    ticks = range(names.index("0") % every, len(names), every)
    axes.set_xticks(ticks, [names[index] for index in ticks], fontsize=8)
    axes.set_xlabel("step: swaps from the start; R with classes removed from each side (shaded)")


def shown_rungs(ladder: Ladder) -> tuple[int, ...]:
    """The numbers of an easy, a middle and a hard rung: the first, the middle and the last."""
    count = len(ladder.rungs)
    return tuple(dict.fromkeys((1, (count + 1) // 2, count)))


def map_points(catalogue: Catalogue, ladder: Ladder, max_points: int = MAX_POINTS) -> np.ndarray:
    """Items for a map: a random sample of the rungs' classes, the same share of every class; always the same items."""
    on_rungs = {name for rung in ladder.rungs for side in (rung.train, rung.validation, rung.test) for name in side}
    is_wanted = np.array([name in on_rungs for name in catalogue.class_names])
    items = np.flatnonzero(is_wanted[catalogue.labels])
    if len(items) <= max_points:
        return items
    shuffled = numpy_generator(derive(0, "points of a map")).permutation(items)
    # Sorted by the position inside the class over the size of the class, the first n are the same share of each.
    by_class = shuffled[np.argsort(catalogue.labels[shuffled], kind="stable")]
    labels = catalogue.labels[by_class]
    position = np.arange(len(labels)) - np.searchsorted(labels, labels)
    sizes = np.bincount(labels)[labels]
    return np.sort(by_class[np.argsort((position + 0.5) / sizes, kind="stable")[:max_points]])


def project_by_umap(features: np.ndarray) -> tuple[np.ndarray, str]:
    """Coordinates by UMAP, and the name of the method with its number of neighbours.

    Raises:  ConfigError where umap-learn is not installed
    """
    try:
        from umap import UMAP
    except ImportError:
        raise ConfigError("a map by UMAP needs umap-learn", hint="Run pip install umap-learn.") from None
    points = features.astype(np.float32)
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    neighbours = min(15, len(points) - 1)
    umap = UMAP(n_neighbors=neighbours, random_state=0, n_jobs=1)
    coordinates = np.asarray(umap.fit_transform(points / np.where(lengths > 0, lengths, 1.0)))
    return coordinates, f"UMAP ({neighbours} neighbours)"


# t-SNE falls back to principal components where openTSNE is not installed.
PROJECTIONS: dict[str, Projection] = {"tsne": project, "umap": project_by_umap}


def map_figure(ladder: Ladder, rungs: Sequence[int], names: np.ndarray, points: np.ndarray, method: str) -> "Figure":
    """A map for each of these rungs: the same points at the same coordinates, coloured by the side they are on.

    ``names`` is the class of each point.
    """
    figure, [row] = panels(1, len(rungs), width=4.2 * len(rungs), height=4.7)
    for axes, number in zip(row, rungs, strict=True):
        rung = ladder.rungs[number - 1]
        sides = _sides(rung, names)
        for side, (_, colour, size) in enumerate(_SIDES):
            own = points[sides == side]
            axes.scatter(own[:, 0], own[:, 1], s=size, c=colour, linewidths=0, alpha=0.75)
        axes.set_title(f"rung {number} (step {label(rung.step)}), distance {rung.class_distance:.4g}", fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_aspect("equal", adjustable="datalim")
    handles = [row[0].scatter([], [], s=30, c=colour, label=title) for title, colour, _ in (*_SIDES[1:], _SIDES[0])]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(f"{label(ladder.data['name'], 60)}: {len(names):,} images by {method}", fontsize=11)
    return figure


def ladder_map(ladder: Ladder, catalogue: Catalogue, features: np.ndarray, projection: str) -> "Figure":
    """A map of an easy, a middle and a hard rung by one of `PROJECTIONS`.

    Raises:  DataError for another catalogue than the ladder's
    """
    split_of_rung(ladder, catalogue, 1)  # refuses other data
    points = map_points(catalogue, ladder)
    names = np.array(catalogue.class_names)[catalogue.labels[points]]
    coordinates, method = PROJECTIONS[projection](np.asarray(features[points], np.float32))
    return map_figure(ladder, shown_rungs(ladder), names, coordinates, method)


def _sides(rung: Rung, names: np.ndarray) -> np.ndarray:
    """The index in `_SIDES` of each point: 1 for training and validation classes, 2 for test classes, 0 for others."""
    side_of = dict.fromkeys([*rung.train, *rung.validation], 1) | dict.fromkeys(rung.test, 2)
    return np.array([side_of.get(str(name), 0) for name in names])
