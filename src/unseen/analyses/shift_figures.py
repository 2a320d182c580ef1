"""Analyses of a study over a ladder: curves over distance, and structure against shift, for any score."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.analyses.base import Analysis
from unseen.analyses.generalisation import AGGREGATED_COLUMNS, LadderResult, aggregated_rows, climbs
from unseen.analyses.structure import COLUMNS, Relation, relation, relation_row
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest
from unseen.core.text import listed
from unseen.figures.style import FAINT, GREY, INK, MARKS, SERIES, label, panels
from unseen.studies.results.content import Content
from unseen.studies.results.ranking import score_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 3
_WORDS = {"class": "distance of class means", "sample": "distance of samples"}


def generalisation(content: Content, score: str, level: str = "class") -> Analysis:
    """A score over the distance of the rungs, its aggregate, and ranks from the first rung to the last.

    Raises:     DataError for a study without a ladder; ConfigError for a score that it does not have
    """
    found = _climbs(content, score)
    rows = [
        [*row, *(ends or ("", ""))]
        for climb in found
        for row, ends in zip(aggregated_rows(climb, [score], level), _first_and_last(climb, score), strict=True)
    ]
    return Analysis(
        name=f"generalisation-{_in_a_name(score)}",
        draw=lambda: _curves(found, score, level),
        columns=(*AGGREGATED_COLUMNS, "rank on the first rung", "rank on the last"),
        rows=rows,
        shown=("data", "method", "aggregated", "standard deviation", "rank on the first rung", "rank on the last"),
        remarks=[remark for climb in found for remark in _remarks(climb, score)],
    )


def structure_against_shift(content: Content, score: str) -> Analysis:
    """Every structure score against a retrieval score over all rungs and trained methods.

    Raises:     DataError for a study without a ladder or structure scores; ConfigError for an unknown score
    """
    found = _climbs(content, score)
    related = [
        (climb, relation(climb, structure, score))
        for climb in found
        for structure in content.structure_scores
        if structure in climb.scores
    ]
    if not related:
        raise DataError("the study has no score of structure", hint="Use a study whose cells were scored completely.")
    return Analysis(
        name=f"structure-{_in_a_name(score)}",
        draw=lambda: _scatter(related),
        columns=COLUMNS,
        rows=[relation_row(climb, each) for climb, each in related],
        shown=("data", "structure score", "Pearson", "Spearman", "points", "Pearson there"),
        remarks=[
            f"{climb.data}: {each.structure} and {score}: {each.everywhere.correlation}; on the default split alone "
            f"{each.at_start.correlation}"
            for climb, each in related
        ],
    )


def _climbs(content: Content, score: str) -> tuple[LadderResult, ...]:
    known = list(score_names(content))
    if score not in known:
        raise ConfigError(f"the study has no score '{score}'{nearest(score, known)} (it has: {', '.join(known)})")
    found = climbs(content)
    if not found:
        raise DataError(
            "the study has no two rungs of a ladder", hint="Use a study such as `ladder-frozen` (unseen list studies)."
        )
    return found


def _in_a_name(score: str) -> str:
    return score.replace("@", "-at-")


def _first_and_last(climb: LadderResult, score: str) -> list[tuple[float, float] | None]:
    standings = climb.standings(score)
    return [
        (standings[place].ranks[0], standings[place].ranks[-1]) if place in standings else None
        for place in range(len(climb.courses))
    ]


def _remarks(climb: LadderResult, score: str) -> list[str]:
    standings = climb.standings(score)
    if climb.differences:
        fields = listed(" › ".join(difference.path) for difference in climb.differences)
        return [f"{climb.data}: not ranked, methods were run under unlike protocols: they differ in {fields}"]
    remarks = []
    moved = sum(change != 0 for standing in standings.values() for change in standing.changes)
    if standings:
        places = len(standings) * (len(climb.steps) - 1)
        remarks.append(f"{climb.data}: {moved} of {places} times a method changes its rank from a rung to the next")
    missing = [course.method for course in climb.courses if not course.is_complete(score)]
    if missing:
        remarks.append(f"{climb.data}: without a score on every rung: {listed(missing)}")
    return remarks


def _curves(found: Sequence[LadderResult], score: str, level: str) -> "Figure":
    figure, rows = panels(1, len(found), width=7.4 * len(found), height=5.0)
    for axes, climb in zip(rows[0], found, strict=True):
        _draw_curves(axes, climb, score, level)
    return figure


def _draw_curves(axes: "Axes", climb: LadderResult, score: str, level: str) -> None:
    distances = np.array(climb.distances(level))
    order = np.argsort(distances)
    for place, course in enumerate(climb.courses):
        means = np.array(course.means(score))[order]
        deviations = np.array([summary.deviation or 0.0 for summary in course.summaries(score)])[order]
        look: dict[str, Any] = {
            "color": SERIES[place % len(SERIES)],
            "marker": MARKS[place // len(SERIES) % len(MARKS)],
        }
        if not course.is_trained:
            look |= {"color": GREY, "linestyle": "--"}
        axes.errorbar(
            distances[order], means, deviations, markersize=4, elinewidth=0.9, label=label(course.method), **look
        )
        ends = [interval or (math.nan, math.nan) for interval in course.intervals(score)]
        low, high = np.array(ends)[order].T
        axes.fill_between(distances[order], low, high, color=look["color"], alpha=0.07, linewidth=0)
    axes.set(xlabel=_WORDS[level], ylabel=f"{label(score)} on unseen classes")
    axes.set_title(f"{label(climb.data, 50)}: bars one deviation of seeds, bands other classes", fontsize=10)
    axes.grid(True)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _scatter(related: Sequence[tuple[LadderResult, Relation]]) -> "Figure":
    count = -(-len(related) // _ACROSS)
    figure, rows = panels(count, _ACROSS, width=3.6 * _ACROSS, height=3.1 * count)
    every = [axes for row in rows for axes in row]
    for axes, (climb, each) in zip(every, related, strict=False):
        methods = sorted({point.method for point in each.points})
        for place, method in enumerate(methods):
            own = [point for point in each.points if point.method == method]
            axes.scatter(
                [point.structure for point in own],
                [point.retrieval for point in own],
                s=16,
                color=SERIES[place % len(SERIES)],
                marker=MARKS[place // len(SERIES) % len(MARKS)],
                label=label(method),
            )
        starts = [point for point in each.points if point.is_start]
        for trend, points, colour, style in (
            (each.everywhere, each.points, INK, "-"),
            (each.at_start, starts, GREY, "--"),
        ):
            if math.isfinite(trend.slope):
                places = [point.structure for point in points]
                ends = np.array([min(places), max(places)])
                axes.plot(ends, trend.intercept + trend.slope * ends, linewidth=1.1, color=colour, linestyle=style)
        axes.set(xlabel=label(each.structure), ylabel=label(each.retrieval))
        axes.set_title(f"{label(climb.data)}: {each.everywhere.correlation}", fontsize=7.5)
        axes.grid(True, color=FAINT)
    for axes in every[len(related) :]:
        axes.set_visible(False)
    handles, names = every[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4)
    return figure
