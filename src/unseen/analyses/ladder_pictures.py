"""Pictures of a ladder: distance against step, and maps of rungs with training and test images coloured."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, numpy_generator
from unseen.data.catalogue import Catalogue
from unseen.figures.projection import project
from unseen.figures.style import label
from unseen.shifts import Ladder, Rung, split_of_rung

Places = tuple[np.ndarray, str]

MOST_POINTS = 1500
_TRAIN, _TEST, _GONE = "#1e7dc4", "#d55e00", "#bbbbbb"
_LEVELS = (("class_distance", "class means", "#222222"), ("sample_distance", "samples", "#009670"))


def distance_figure(ladder: Ladder) -> Figure:
    """The Frechet distances of every step, both levels, the rungs marked and numbered."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.add_subplot()
    names = [step.name for step in ladder.steps]
    places = range(len(names))
    chosen = [names.index(rung.step) for rung in ladder.rungs]
    for level, words, colour in _LEVELS:
        known = [place for place in places if getattr(ladder.steps[place], level) is not None]
        values = [getattr(ladder.steps[place], level) for place in known]
        axes.plot(known, values, ".-", color=colour, linewidth=1.4, markersize=3, label=words)
        axes.plot(chosen, [getattr(rung, level) for rung in ladder.rungs], "o", color=colour, markersize=5)
    for number, (place, rung) in enumerate(zip(chosen, ladder.rungs, strict=True), start=1):
        lower = min(rung.class_distance, rung.sample_distance)
        axes.annotate(str(number), (place, lower), (0, -6), textcoords="offset points", ha="center", va="top")
    if ladder.is_by_groups:
        axes.set_xticks(places, [label(name) for name in names], fontsize=8)
        axes.tick_params(axis="x", labelrotation=90 if len(names) > 9 else 0)
        axes.set_xlabel("step: the group of the test classes; all other groups train")
    else:
        _mark_walk(axes, names)
    axes.set_ylabel("Frechet distance of training and test")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.set_title(f"Ladder of {label(ladder.data['name'], 60)}: {len(ladder.rungs)} rungs", loc="left", fontsize=11)
    axes.legend(frameon=False, loc="upper left", title="distance of")
    return figure


def _mark_walk(axes: Axes, names: Sequence[str]) -> None:
    """The steps of a walk along the horizontal axis, its start, and where classes are removed."""
    removed = next((place for place, name in enumerate(names) if name.startswith("R")), None)
    axes.axvline(names.index("0"), color=_GONE, linewidth=0.8)
    if removed is not None:
        axes.axvspan(removed - 0.5, len(names) - 0.5, color="#f1f1f1", zorder=0)
    every = max(1, -(-len(names) // 16))
    ticks = sorted({*range(names.index("0") % every, len(names), every)})
    axes.set_xticks(ticks, [names[place] for place in ticks], fontsize=8)
    axes.set_xlabel("step: swaps from the start; R with classes removed from each side (shaded)")


def shown_rungs(ladder: Ladder) -> tuple[int, ...]:
    """The numbers of an easy, a middle and a hard rung: the first, the middle and the last."""
    count = len(ladder.rungs)
    return tuple(dict.fromkeys((1, (count + 1) // 2, count)))


def map_points(catalogue: Catalogue, ladder: Ladder, most: int = MOST_POINTS) -> np.ndarray:
    """Items for a map: those of the rungs' classes, the same share of every class, drawn by a fixed key."""
    wanted = {name for rung in ladder.rungs for side in (rung.train, rung.validation, rung.test) for name in side}
    names = np.array([name in wanted for name in catalogue.class_names])
    items = np.flatnonzero(names[catalogue.labels])
    if len(items) <= most:
        return items
    drawn = numpy_generator(derive(0, "points of a map")).permutation(items)
    # Dealt class after class, a class of fewer images than others comes to its end earlier.
    order = np.argsort(catalogue.labels[drawn], kind="stable")
    labels = catalogue.labels[drawn][order]
    turn = np.arange(len(labels)) - np.searchsorted(labels, labels)
    sizes = np.bincount(labels)[labels]
    return np.sort(drawn[order][np.argsort((turn + 0.5) / sizes, kind="stable")[:most]])


def project_by_tsne(features: np.ndarray) -> Places:
    """Places by t-SNE and its name; principal components where openTSNE is not installed."""
    return project(features)


def project_by_umap(features: np.ndarray) -> Places:
    """Places by UMAP and its name.

    Raises:  ConfigError where umap-learn is not installed
    """
    try:
        from umap import UMAP
    except ImportError:
        raise ConfigError("a map by UMAP needs umap-learn", hint="Use pip install umap-learn.") from None
    points = features.astype(np.float32)
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    near = min(15, len(points) - 1)
    umap = UMAP(n_neighbors=near, random_state=0, n_jobs=1)
    return np.asarray(umap.fit_transform(points / np.where(lengths > 0, lengths, 1.0))), f"UMAP ({near} neighbours)"


PROJECTIONS: dict[str, Callable[[np.ndarray], Places]] = {"tsne": project_by_tsne, "umap": project_by_umap}


def map_figure(ladder: Ladder, rungs: Sequence[int], names: np.ndarray, places: np.ndarray, method: str) -> Figure:
    """A map for each of these rungs: the same points in the same places, coloured by the side they are on.

    ``names`` is the class of each point.
    """
    figure = Figure(figsize=(4.2 * len(rungs), 4.7), layout="constrained")
    panels = figure.subplots(1, len(rungs), squeeze=False)[0]
    for axes, number in zip(panels, rungs, strict=True):
        rung = ladder.rungs[number - 1]
        side = _sides(rung, names)
        for which, colour, size in ((0, _GONE, 4), (1, _TRAIN, 9), (2, _TEST, 9)):
            own = places[side == which]
            axes.scatter(own[:, 0], own[:, 1], s=size, c=colour, linewidths=0, alpha=0.75)
        axes.set_title(f"rung {number} (step {label(rung.step)}), distance {rung.class_distance:.4g}", fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_aspect("equal", adjustable="datalim")
    handles = [
        panels[0].scatter([], [], s=30, c=colour, label=words)
        for colour, words in ((_TRAIN, "training classes"), (_TEST, "test classes"), (_GONE, "on neither side"))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(f"{label(ladder.data['name'], 60)}: {len(names):,} images by {method}", fontsize=11)
    return figure


def ladder_map(ladder: Ladder, catalogue: Catalogue, features: np.ndarray, projection: str) -> Figure:
    """A map of an easy, a middle and a hard rung by one of `PROJECTIONS`.

    Raises:  DataError for another catalogue than the ladder's
    """
    split_of_rung(ladder, catalogue, 1)  # refuses other data
    points = map_points(catalogue, ladder)
    names = np.array(catalogue.class_names)[catalogue.labels[points]]
    places, method = PROJECTIONS[projection](np.asarray(features[points], np.float32))
    return map_figure(ladder, shown_rungs(ladder), names, places, method)


def _sides(rung: Rung, names: np.ndarray) -> np.ndarray:
    """1 for points of training and validation classes, 2 for those of test classes, 0 for others."""
    side_of = dict.fromkeys([*rung.train, *rung.validation], 1) | dict.fromkeys(rung.test, 2)
    return np.array([side_of.get(str(name), 0) for name in names])
