"""Analysis `structure`: structure scores of embeddings against a retrieval score over rungs and methods."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unseen.analyses.base import AnalysisInputs, AnalysisResult, Value, finite_or_none
from unseen.analyses.correlation import Correlation, correlation
from unseen.analyses.shift.ladder_results import LadderResult, results_with_score
from unseen.core.errors import DataError
from unseen.core.registry import analysis
from unseen.figures.style import FAINT, GREY, INK, MARKS, SERIES, label, panels
from unseen.studies.results.content import Content
from unseen.studies.results.load import load_content

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS_PER_ROW = 3
START = "0"  # the step of a ladder from which its walk begins: the default split
COLUMNS = (
    "data", "ladder", "structure score", "retrieval score", "points", "Pearson", "Spearman", "slope, scaled",
    "points on the default split", "Pearson there", "Spearman there", "slope there, scaled",
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """A trained method on a rung: its means of a structure score and of a retrieval score."""

    method: str
    split: str
    is_start: bool
    structure: float
    retrieval: float


@dataclass(frozen=True)
class Trend:
    """The least-squares line through points, its slope when both scores are scaled to [0, 1], and the correlations."""

    correlation: Correlation
    slope: float
    intercept: float
    scaled_slope: float


@dataclass(frozen=True, eq=False)
class Relation:
    """A structure score and a retrieval score over all rungs and trained methods, and on the default split alone."""

    structure: str
    retrieval: str
    points: tuple[Point, ...]
    everywhere: Trend
    at_start: Trend


def relations(content: Content, ladder: LadderResult) -> list[Relation]:
    """Every structure score against every retrieval score.

    Untrained methods are left out: their features have another width, and spectra depend on it.
    """
    return [
        relation(ladder, structure, retrieval)
        for structure in content.structure_scores
        for retrieval in content.retrieval_scores
        if structure in ladder.scores and retrieval in ladder.scores
    ]


def relation(ladder: LadderResult, structure: str, retrieval: str) -> Relation:
    """One structure score against one retrieval score."""
    points = tuple(
        Point(curve.method, rung.split, rung.step == START, x, y)
        for curve in ladder.curves
        if curve.is_trained
        for rung, x, y in zip(ladder.rungs, curve.means(structure), curve.means(retrieval), strict=True)
        if math.isfinite(x) and math.isfinite(y)
    )
    return Relation(structure, retrieval, points, trend(points), trend([point for point in points if point.is_start]))


def trend(points: Sequence[Point]) -> Trend:
    """The trend of a retrieval score over a structure score.

    Empty:      NaN for fewer than 3 points, and where one side is constant
    """
    from scipy.stats import linregress

    x, y = (np.array([getattr(point, side) for point in points]) for side in ("structure", "retrieval"))
    correlated = correlation(x.tolist(), y.tolist())
    if not math.isfinite(correlated.pearson):
        return Trend(correlated, math.nan, math.nan, math.nan)
    line = linregress(x, y)
    return Trend(correlated, float(line.slope), float(line.intercept), float(line.slope * np.ptp(x) / np.ptp(y)))


def relation_row(ladder: LadderResult, related: Relation) -> list[Value]:
    """The numbers of a relation; None where they are not defined."""
    row: list[Value] = [ladder.data, ladder.ladder, related.structure, related.retrieval]
    for line in (related.everywhere, related.at_start):
        numbers = (line.correlation.pearson, line.correlation.spearman, line.scaled_slope)
        row += [line.correlation.points, *map(finite_or_none, numbers)]
    return row


@analysis("structure")
def structure(inputs: AnalysisInputs, /, *, score: str = "recall@1") -> AnalysisResult:
    """Structure scores of embeddings against a retrieval score over all rungs and methods.

    =====  ======================================================
    score  The retrieval score on unseen classes.
    =====  ======================================================

    Raises:     DataError for a study without a ladder or structure scores; ConfigError for an unknown score
    Reference:  Milbich et al., NeurIPS 2021, arXiv:2107.09562, figures 6 and 7
    """
    return structure_result(load_content(inputs.folder), score)


def structure_result(content: Content, score: str) -> AnalysisResult:
    """The analysis of results that were read before."""
    related = [
        (ladder, relation(ladder, name, score))
        for ladder in results_with_score(content, score)
        for name in content.structure_scores
        if name in ladder.scores
    ]
    if not related:
        raise DataError("the study has no score of structure", hint="Use a study whose cells have all their scores.")
    return AnalysisResult(
        draw=lambda: _figure(related),
        columns=COLUMNS,
        rows=[relation_row(ladder, scores) for ladder, scores in related],
        remarks=[
            f"{ladder.data}: {scores.structure} and {score}: {scores.everywhere.correlation}; on the default split "
            f"alone {scores.at_start.correlation}"
            for ladder, scores in related
        ],
        printed_columns=("data", "structure score", "Pearson", "Spearman", "points", "Pearson there"),
        variant=score,
    )


def _figure(related: Sequence[tuple[LadderResult, Relation]]) -> "Figure":
    count = -(-len(related) // _PANELS_PER_ROW)
    figure, rows = panels(count, _PANELS_PER_ROW, width=3.6 * _PANELS_PER_ROW, height=3.1 * count)
    all_axes = [axes for row in rows for axes in row]
    for axes, (ladder, scores) in zip(all_axes, related, strict=False):
        _draw(axes, scores)
        axes.set_title(f"{label(ladder.data)}: {scores.everywhere.correlation}", fontsize=7.5)
    for axes in all_axes[len(related) :]:
        axes.set_visible(False)
    handles, names = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4)
    return figure


def _draw(axes: "Axes", scores: Relation) -> None:
    for index, method in enumerate(sorted({point.method for point in scores.points})):
        points = [point for point in scores.points if point.method == method]
        axes.scatter(
            [point.structure for point in points],
            [point.retrieval for point in points],
            s=16,
            color=SERIES[index % len(SERIES)],
            marker=MARKS[index // len(SERIES) % len(MARKS)],
            label=label(method),
        )
    starts = [point for point in scores.points if point.is_start]
    for trend, trend_points, colour, style in (
        (scores.everywhere, scores.points, INK, "-"),
        (scores.at_start, starts, GREY, "--"),
    ):
        if math.isfinite(trend.slope):
            x = [point.structure for point in trend_points]
            ends = np.array([min(x), max(x)])
            axes.plot(ends, trend.intercept + trend.slope * ends, linewidth=1.1, color=colour, linestyle=style)
    axes.set(xlabel=label(scores.structure), ylabel=label(scores.retrieval))
    axes.grid(True, color=FAINT)
