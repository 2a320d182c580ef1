"""Analysis `few-shot`: gains from adapting to a few images of each test class, against the distance of the rung."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from unseen.analyses.base import AnalysisInputs, AnalysisResult, Value
from unseen.analyses.shift.run_few_shot import FewShotGrid, few_shot_of_runs
from unseen.core.checks import check_choice, check_count
from unseen.core.errors import DataError
from unseen.core.registry import analysis, nearest
from unseen.figures.style import GREY, MARKS, SERIES, label, panels
from unseen.shifts import FewShotResult
from unseen.shifts.episodes import EPISODES, SHOTS
from unseen.shifts.few_shot import SCORES, Gain
from unseen.studies.plan import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# "method", "split" or "seed" -> labels of the cells to take; all where there are none
Choice: TypeAlias = Mapping[str, Sequence[str] | Sequence[int]]
_COLUMNS = (
    "data", "split", "method", "seed", "shots", "distance", "zero-shot", "zero-shot low", "zero-shot high",
    "few-shot", "few-shot low", "few-shot high", "gain", "gain low", "gain high", "episodes", "classes", "left out",
)  # fmt: skip


@analysis("few-shot")
def few_shot(
    inputs: AnalysisInputs,
    /,
    *,
    score: str = "recall@1",
    shots: Sequence[int] = (2, 5, 10),
    episodes: int = 10,
    methods: Sequence[str] = (),
    splits: Sequence[str] = (),
    seeds: Sequence[int] = (),
    workers: int = 2,
) -> AnalysisResult:
    """Gains from adapting to a few images of each test class, for a study over the rungs of a ladder.

    ========  ============================================================
    score     recall@1 or map@1000.
    shots     Images per class: some of 2, 5 and 10.
    episodes  Number of episodes, at most 10.
    methods   Methods to adapt; all by default.
    splits    Splits to adapt on; all by default.
    seeds     Seeds to adapt; all by default.
    workers   Processes, each with one thread.
    ========  ============================================================

    Results are kept in the folders of the runs and read again.

    Raises:     DataError for a folder without a study, a study without a trained cell on a rung, a score that is not
                measured, or test classes that are too small for any number of shots
    Reference:  Milbich et al., NeurIPS 2021, arXiv:2107.09562, section 5
    """
    for count in shots:
        check_choice("few-shot", "shots", count, SHOTS)
    check_choice("few-shot", "episodes", episodes, range(1, EPISODES + 1))
    check_count("few-shot", "workers", workers)
    chosen: Choice = {"method": methods, "split": splits, "seed": seeds}
    return few_shot_result(adapted_cells(inputs, FewShotGrid(shots, episodes), chosen, workers=workers), score)


class AdaptedCell(NamedTuple):
    """A finished cell on a rung, with its gain for one number of shots."""

    cell: Cell
    result: FewShotResult


def adapted_cells(
    inputs: AnalysisInputs, settings: FewShotGrid, chosen: Choice, *, workers: int = 1
) -> list[AdaptedCell]:
    """Every chosen trained cell of a study whose split is a rung of a ladder, adapted; earlier results are read."""
    with inputs.open_store() as store:
        cells = [
            result.cell
            for result in store.results()
            if result.content["protocol"]["epochs"] > 0 and result.cell.config["split"]["name"] == "ladder"
        ]
    if not cells:
        raise DataError(
            f"no trained cell of {inputs.folder} is on a rung of a ladder",
            hint="Use splits such as ladder=FILE:rung=1.",
        )
    for label_name, labels in chosen.items():
        known = {str(getattr(cell, label_name)): None for cell in sorted(cells, key=attrgetter(label_name))}
        for unknown in (str(name) for name in labels if str(name) not in known):
            close = nearest(unknown, list(known))
            raise DataError(f"no trained cell has the {label_name} '{unknown}'{close} (there are: {', '.join(known)})")
        cells = [cell for cell in cells if not labels or getattr(cell, label_name) in labels]
    folders = [inputs.folder / "cells" / cell.name for cell in cells]
    results = few_shot_of_runs(folders, settings, cache=inputs.cache, workers=workers, progress=inputs.progress)
    return [AdaptedCell(cell, result) for cell, own in zip(cells, results, strict=True) for result in own]


def few_shot_result(cells: Sequence[AdaptedCell], score: str) -> AnalysisResult:
    """Zero-shot and few-shot scores of every cell, and relative gain against distance."""
    if score not in SCORES:
        raise DataError(f"few-shot scores are {', '.join(SCORES)}{nearest(score, list(SCORES))}", got=score)
    if not cells:
        raise DataError(
            "the test classes are too small for any number of shots and two queries",
            hint="Use classes with more images.",
        )
    gains = [(cell, cell.result.gains[score]) for cell in cells]
    return AnalysisResult(
        draw=lambda: _figure(cells, score),
        columns=_COLUMNS,
        rows=[_row(cell, gain) for cell, gain in gains],
        remarks=_remarks(cells, score),
        printed_columns=("run", "shots", "zero-shot %", "few-shot %", "relative gain %"),
        printed_rows=[_printed_row(cell, gain) for cell, gain in gains],
    )


def _printed_row(adapted: AdaptedCell, gain: Gain) -> list[str]:
    """A row for a terminal, in per cent."""
    cell, result = adapted
    relative = "–"
    share = gain.share
    if share is not None:
        relative = f"{100 * share.mean:+.1f}"
        if share.low is not None and share.high is not None:
            relative += f" ({100 * share.low:+.1f} to {100 * share.high:+.1f})"
    means = (f"{100 * estimate.mean:.1f}" for estimate in (gain.zero_shot, gain.few_shot))
    return [f"{cell.split} / {cell.method} / seed {cell.seed}", str(result.shots), *means, relative]


def _row(adapted: AdaptedCell, gain: Gain) -> list[Value]:
    cell, result = adapted
    row: list[Value] = [cell.data, cell.split, cell.method, cell.seed, result.shots, result.distance]
    for estimate in (gain.zero_shot, gain.few_shot, gain.share):
        row += (None,) * 3 if estimate is None else (estimate.mean, estimate.low, estimate.high)
    return [*row, result.episodes, result.classes, result.left_out]


def _remarks(cells: Sequence[AdaptedCell], score: str) -> list[str]:
    remarks = []
    for shots in sorted({cell.result.shots for cell in cells}):
        gains = [cell.result.gains[score].share for cell in cells if cell.result.shots == shots]
        shares = [share for share in gains if share is not None]
        intervals = [(share.low, share.high) for share in shares if share.low is not None and share.high is not None]
        up, down = sum(low > 0 for low, _ in intervals), sum(high < 0 for _, high in intervals)
        mean = 100 * float(np.mean([share.mean for share in shares] or [np.nan]))
        remarks.append(
            f"{shots} shots: {score} changes by {mean:+.1f} % on average; of {len(intervals)} cells {up} gain and "
            f"{down} lose beyond their 95 % interval over episodes"
        )
    return remarks


def _figure(cells: Sequence[AdaptedCell], score: str) -> "Figure":
    shot_counts = sorted({cell.result.shots for cell in cells})
    figure, rows = panels(1, len(shot_counts), width=4.4 * len(shot_counts), height=4.2)
    for axes, shots in zip(rows[0], shot_counts, strict=True):
        _draw(axes, [cell for cell in cells if cell.result.shots == shots], score)
        axes.set_title(f"{shots} shots")
        axes.set_xlabel("Frechet distance of class means")
    rows[0][0].set_ylabel(f"relative gain of {label(score)} (%)")
    rows[0][-1].legend(loc="best")
    return figure


def _draw(axes: "Axes", cells: Sequence[AdaptedCell], score: str) -> None:
    """A line for each method, the mean over seeds; bars are the mean interval of a seed, as seeds share episodes."""
    axes.axhline(0, color=GREY, linewidth=0.8)
    for number, key in enumerate(dict.fromkeys((cell.data, cell.method) for cell, _ in cells)):
        by_distance: dict[float, list[tuple[float, float]]] = {}
        for cell, result in cells:
            share, distance = result.gains[score].share, result.distance
            if (cell.data, cell.method) == key and share is not None and distance is not None:
                half_width = 0.0 if share.high is None else share.high - share.mean
                by_distance.setdefault(distance, []).append((share.mean, half_width))
        distances = sorted(by_distance)
        means = np.array([np.mean(by_distance[distance], axis=0) for distance in distances]).reshape(-1, 2)
        axes.errorbar(
            distances,
            100 * means[:, 0],
            100 * means[:, 1],
            fmt=f"{MARKS[number % len(MARKS)]}-",
            color=SERIES[number % len(SERIES)],
            markersize=4,
            capsize=2,
            linewidth=1.2,
            label=label(key[1]),
        )
    axes.grid(True, axis="y")
