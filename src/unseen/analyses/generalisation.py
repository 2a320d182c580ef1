"""Analysis `generalisation`: a score over the distance of the rungs of a ladder."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.analyses.base import AnalysisInputs, AnalysisResult, Value
from unseen.analyses.shift.ladder_results import (
    AGGREGATED_COLUMNS,
    LEVELS,
    LadderResult,
    aggregated_rows,
    results_with_score,
)
from unseen.core.checks import check_choice
from unseen.core.registry import analysis
from unseen.core.text import listed
from unseen.figures.style import GREY, MARKS, SERIES, label, panels
from unseen.studies.results.content import Content
from unseen.studies.results.load import load_content

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVEL_NAMES = {"class": "distance of class means", "sample": "distance of samples"}


@analysis("generalisation")
def generalisation(inputs: AnalysisInputs, /, *, score: str = "recall@1", distance: str = "class") -> AnalysisResult:
    """A score over the rungs of a ladder, its aggregate, and how ranks change.

    ========  ======================================================
    score     The score on unseen classes that methods are compared by.
    distance  Distance of the rungs: class (class means) or sample.
    ========  ======================================================

    Raises:     DataError for a study without a ladder; ConfigError for a score that it does not have
    Reference:  Milbich et al., NeurIPS 2021, arXiv:2107.09562, figure 3
    """
    check_choice("analyse generalisation", "distance", distance, tuple(LEVELS))
    return generalisation_result(load_content(inputs.folder), score, distance)


def generalisation_result(content: Content, score: str, level: str = "class") -> AnalysisResult:
    """The analysis of results that were read before."""
    ladders = results_with_score(content, score)
    rows: list[list[Value]] = []
    for ladder in ladders:
        histories = ladder.rank_histories(score)
        for index, row in enumerate(aggregated_rows(ladder, [score], level)):
            history = histories.get(index)
            rows.append([*row, *((history.ranks[0], history.ranks[-1]) if history else (None, None))])
    rank_columns = ("rank on the first rung", "rank on the last")
    return AnalysisResult(
        draw=lambda: _figure(ladders, score, level),
        columns=(*AGGREGATED_COLUMNS, *rank_columns),
        rows=rows,
        remarks=[remark for ladder in ladders for remark in _remarks(ladder, score)],
        printed_columns=("data", "method", "aggregated", "standard deviation", *rank_columns),
        variant=score,
    )


def _remarks(ladder: LadderResult, score: str) -> list[str]:
    if ladder.differences:
        fields = listed(" › ".join(difference.path) for difference in ladder.differences)
        return [f"{ladder.data}: not ranked, methods were run under unlike protocols: they differ in {fields}"]
    remarks = []
    histories = ladder.rank_histories(score)
    if histories:
        changes = [change for history in histories.values() for change in history.changes]
        moved = sum(change != 0 for change in changes)
        remarks.append(
            f"{ladder.data}: {moved} of {len(changes)} times a method changes its rank from a rung to the next"
        )
    incomplete = [curve.method for curve in ladder.curves if not curve.is_complete(score)]
    if incomplete:
        remarks.append(f"{ladder.data}: without a score on every rung: {listed(incomplete)}")
    return remarks


def _figure(ladders: Sequence[LadderResult], score: str, level: str) -> "Figure":
    figure, rows = panels(1, len(ladders), width=7.4 * len(ladders), height=5.0)
    for axes, ladder in zip(rows[0], ladders, strict=True):
        _draw(axes, ladder, score, level)
    return figure


def _draw(axes: "Axes", ladder: LadderResult, score: str, level: str) -> None:
    distances = np.array(ladder.distances(level))
    order = np.argsort(distances)
    x = distances[order]
    for index, curve in enumerate(ladder.curves):
        means = np.array(curve.means(score))[order]
        deviations = np.array([summary.deviation or 0.0 for summary in curve.summaries(score)])[order]
        style: dict[str, Any] = {
            "color": SERIES[index % len(SERIES)],
            "marker": MARKS[index // len(SERIES) % len(MARKS)],
        }
        if not curve.is_trained:
            style |= {"color": GREY, "linestyle": "--"}
        axes.errorbar(x, means, deviations, markersize=4, elinewidth=0.9, label=label(curve.method), **style)
        intervals = [interval or (math.nan, math.nan) for interval in curve.intervals(score)]
        low, high = np.array(intervals)[order].T
        axes.fill_between(x, low, high, color=style["color"], alpha=0.07, linewidth=0)
    axes.set(xlabel=_LEVEL_NAMES[level], ylabel=f"{label(score)} on unseen classes")
    axes.set_title(f"{label(ladder.data, 50)}: bars are deviations of seeds, bands intervals over classes", fontsize=10)
    axes.grid(True)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
