"""Analysis `structure`: structure scores of embeddings against a retrieval score over rungs and methods."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unseen.analyses.base import AnalysisInputs, AnalysisResult
from unseen.analyses.shift.ladder_results import LadderResult, results_with_score
from unseen.analyses.shift.structure_trends import COLUMNS, Relation, relation, relation_row
from unseen.core.errors import DataError
from unseen.core.registry import analysis
from unseen.figures.style import FAINT, GREY, INK, MARKS, SERIES, label, panels
from unseen.studies.results.content import Content
from unseen.studies.results.load import load_content

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS_PER_ROW = 3


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
