"""Few-shot gains of a finished study: what a few images of each test class are worth, against the distance (O)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.analyses.base import Analysis
from unseen.analyses.study_methods import store_of
from unseen.core.errors import DataError
from unseen.core.registry import nearest
from unseen.figures.style import GREY, MARKS, SERIES, label, panels
from unseen.runs.run_few_shot import few_shot_of_runs
from unseen.shifts import Adaptation, FewShotResult
from unseen.shifts.episodes import EPISODES, SHOTS
from unseen.shifts.few_shot import SCORES, Gain
from unseen.studies import Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = (
    "data", "split", "method", "seed", "shots", "distance", "zero-shot", "zero-shot low", "zero-shot high",
    "few-shot", "few-shot low", "few-shot high", "gain", "gain low", "gain high", "episodes", "classes", "left out",
)  # fmt: skip


@dataclass(frozen=True)
class AdaptedCell:
    """A finished cell on a rung, with its gain for one number of shots."""

    data: str
    split: str
    method: str
    seed: int
    found: FewShotResult


def read_adapted(
    folder: Path,
    *,
    shots: Sequence[int] = SHOTS,
    episodes: int = EPISODES,
    how: Adaptation | None = None,
    chosen: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    workers: int = 1,
    cache: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[AdaptedCell]:
    """Every trained cell of a study whose split is a rung of a ladder, adapted; what was computed before is read.

    ========  ====================================================================================
    chosen    "method", "split" or "seed" -> the labels of the cells to take; all where there are none
    workers   processes, each with a core of its own
    ========  ====================================================================================

    Raises:     DataError for a folder without a study, or a study without such a cell
    """
    with Store(store_of(folder)) as store:
        results = store.results()
    cells = [
        result.cell
        for result in results
        if result.content["protocol"]["epochs"] > 0 and result.cell.config["split"]["name"] == "ladder"
    ]
    if not cells:
        raise DataError(
            f"no trained cell of {folder} is on a rung of a ladder", hint="Use splits such as ladder=FILE:rung=1."
        )
    for axis, labels in chosen.items():
        known = sorted({getattr(cell, axis) for cell in cells})
        for asked in labels:
            if asked not in known:
                texts = [str(each) for each in known]
                close = nearest(str(asked), texts)
                raise DataError(f"no trained cell has the {axis} '{asked}'{close} (there are: {', '.join(texts)})")
        cells = [cell for cell in cells if not labels or getattr(cell, axis) in labels]
    folders = [folder / "cells" / cell.name for cell in cells]
    gains = few_shot_of_runs(
        folders, shots=shots, episodes=episodes, how=how, cache=cache, workers=workers, progress=progress
    )
    return [
        AdaptedCell(cell.data, cell.split, cell.method, cell.seed, each)
        for cell, own in zip(cells, gains, strict=True)
        for each in own
    ]


def few_shot_gains(cells: Sequence[AdaptedCell], score: str) -> Analysis:
    """Zero-shot and few-shot scores of every cell, and relative gain against distance.

    Raises:     DataError for a score that was not measured, or test classes too small for any number of shots
    """
    if score not in SCORES:
        raise DataError(f"few-shot scores are {', '.join(SCORES)}{nearest(score, list(SCORES))}", got=score)
    if not cells:
        raise DataError(
            "the test classes are too small for any number of shots and two queries", hint="Use larger classes."
        )
    rows = [_row(cell, cell.found.gains[score]) for cell in cells]
    return Analysis(
        name="few-shot",
        draw=lambda: _figure(cells, score),
        columns=_COLUMNS,
        rows=rows,
        shown=("run", "shots", "zero-shot %", "few-shot %", "relative gain %"),
        as_shown=[_shown(cell, cell.found.gains[score]) for cell in cells],
        remarks=_remarks(cells, score),
    )


def _shown(cell: AdaptedCell, gain: Gain) -> list[str]:
    """A row for a terminal, in per cent."""
    gained = "–"
    if gain.share is not None:
        share = gain.share
        gained = f"{100 * share.mean:+.1f}"
        if share.low is not None and share.high is not None:
            gained += f" ({100 * share.low:+.1f} to {100 * share.high:+.1f})"
    means = (f"{100 * each.mean:.1f}" for each in (gain.zero_shot, gain.few_shot))
    return [f"{cell.split} / {cell.method} / seed {cell.seed}", str(cell.found.shots), *means, gained]


def _row(cell: AdaptedCell, gain: Gain) -> list[Any]:
    found = cell.found
    spans = [(None,) * 3 if each is None else (each.mean, each.low, each.high) for each in vars(gain).values()]
    places = [cell.data, cell.split, cell.method, cell.seed, found.shots, found.distance]
    numbers = [number for span in spans for number in span]
    return ["" if value is None else value for value in [*places, *numbers]] + [
        found.episodes, found.classes, found.left_out
    ]  # fmt: skip


def _remarks(cells: Sequence[AdaptedCell], score: str) -> list[str]:
    remarks = []
    for shots in sorted({cell.found.shots for cell in cells}):
        shares = [cell.found.gains[score].share for cell in cells if cell.found.shots == shots]
        spans = [(share.low, share.high) for share in shares if share is not None]
        sure = [(low, high) for low, high in spans if low is not None and high is not None]
        up, down = sum(low > 0 for low, _ in sure), sum(high < 0 for _, high in sure)
        mean = 100 * float(np.mean([share.mean for share in shares if share is not None] or [np.nan]))
        remarks.append(
            f"{shots} shots: {score} changes by {mean:+.1f} % on average; of {len(sure)} cells {up} gain and {down} "
            "lose beyond their 95 % interval over episodes"
        )
    return remarks


def _figure(cells: Sequence[AdaptedCell], score: str) -> "Figure":
    every = sorted({cell.found.shots for cell in cells})
    figure, rows = panels(1, len(every), width=4.4 * len(every), height=4.2)
    for place, shots in zip(rows[0], every, strict=True):
        _draw(place, [cell for cell in cells if cell.found.shots == shots], score)
        place.set_title(f"{shots} shots")
        place.set_xlabel("Frechet distance of class means")
    rows[0][0].set_ylabel(f"relative gain of {label(score)} (%)")
    rows[0][-1].legend(loc="best")
    return figure


def _draw(place: "Axes", cells: Sequence[AdaptedCell], score: str) -> None:
    """A line for each method, the mean over seeds; bars are the mean interval of a seed, as seeds share episodes."""
    place.axhline(0, color=GREY, linewidth=0.8)
    for number, method in enumerate(dict.fromkeys((cell.data, cell.method) for cell in cells)):
        at: dict[float, list[tuple[float, float]]] = {}
        for cell in cells:
            share = cell.found.gains[score].share
            if (cell.data, cell.method) == method and share is not None and cell.found.distance is not None:
                half = 0.0 if share.high is None else share.high - share.mean
                at.setdefault(cell.found.distance, []).append((share.mean, half))
        distances = sorted(at)
        means, halves = (
            [100 * float(np.mean([pair[part] for pair in at[distance]])) for distance in distances] for part in (0, 1)
        )
        place.errorbar(
            distances,
            means,
            halves,
            fmt=f"{MARKS[number % len(MARKS)]}-",
            color=SERIES[number % len(SERIES)],
            markersize=4,
            capsize=2,
            linewidth=1.2,
            label=label(method[1]),
        )
    place.grid(True, axis="y")
