"""Charts over distance: methods and backbones over the rungs of a ladder, and structure against retrieval."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle

from markupsafe import Markup

from unseen.analyses.shift.capacity import Backbone
from unseen.analyses.shift.ladder_results import LadderResult, MethodCurve
from unseen.analyses.structure import Relation
from unseen.core.text import cut, isolated, number
from unseen.figures import plot
from unseen.figures.plot import SMALL, WIDE, Points, Series, finite
from unseen.figures.style import DASHES, FAINT, GREY, INK, SERIES, SeriesStyle, our_look, series_style
from unseen.figures.svg import annotate, to_svg

_LABEL_ROW = 15.0  # between two rows of group names above a chart


def method_styles(ladder: LadderResult) -> list[SeriesStyle]:
    """The style of each method: trained ones coloured by name, as in the curves over epochs, untrained ones grey."""
    names = sorted({curve.method for curve in ladder.curves if curve.is_trained})
    dashes = cycle(DASHES[1:])
    return [
        series_style(names.index(curve.method)) if curve.is_trained else SeriesStyle(GREY, next(dashes))
        for curve in ladder.curves
    ]


def distance_chart(ladder: LadderResult, score: str, *, percent: bool) -> Markup | None:
    """A score of every method over the distance of the rungs: means as a line, deviations over seeds as whiskers."""
    lines = []
    for curve, style in zip(ladder.curves, method_styles(ladder), strict=True):
        summaries = curve.summaries(score)
        deviations = [summary.deviation or 0.0 for summary in summaries]
        means = [summary.mean for summary in summaries]
        lines.append(_line(ladder, curve.method, style, means, deviations, percent=percent))
    return _over_distance(ladder, lines, f"{isolated(score)} of each method over distance", percent=percent)


def capacity_chart(ladder: LadderResult, backbones: Sequence[Backbone], score: str, *, percent: bool) -> Markup | None:
    """A score of every backbone over the distance of the rungs; untrained in the same colour, dashed."""
    lines = []
    for position, backbone in enumerate(backbones):
        style = SeriesStyle(SERIES[position % len(SERIES)])
        lines.append(_line(ladder, backbone.name, style, backbone.trained, percent=percent))
        if finite(backbone.untrained):
            dashed = replace(style, dash=DASHES[1])
            lines.append(_line(ladder, f"{backbone.name}, untrained", dashed, backbone.untrained, percent=percent))
    return _over_distance(ladder, lines, f"{isolated(score)} of each backbone over distance", percent=percent)


def _line(
    ladder: LadderResult,
    name: str,
    style: SeriesStyle,
    means: Sequence[float],
    deviations: Sequence[float] = (),
    *,
    percent: bool,
) -> Series:
    """A line over the rungs with a tool tip for each rung."""
    tips = []
    for position, (rung, mean) in enumerate(zip(ladder.rungs, means, strict=True)):
        deviation = deviations[position] if deviations else 0.0
        seeds = f" ± {number(deviation, percent=percent)}" if deviation else ""
        tips.append(f"{isolated(cut(name, 80))}, rung {rung.number}: {number(mean, percent=percent)}{seeds}")
    return Series(name, style, list(zip(ladder.distances(), means, strict=True)), deviations, tips=tips)


@our_look()
def _over_distance(ladder: LadderResult, lines: Sequence[Series], description: str, *, percent: bool) -> Markup | None:
    values = [y for line in lines for _, y in line.points]
    bars = [(y, d) for line in lines for (_, y), d in zip(line.points, line.deviations, strict=False)]
    ends = finite([*values, *(y + d for y, d in bars), *(y - d for y, d in bars)])
    if not ends:
        return None
    height = max(380.0, 17.0 * len(lines) + 70)
    margins = replace(WIDE, top=WIDE.top + _LABEL_ROW) if ladder.is_by_groups else WIDE
    axes = plot.area(860, height, margins)
    plot.scale(axes, ladder.distances(), ends, percent=percent)
    for position, (distance, rung) in enumerate(zip(ladder.distances(), ladder.rungs, strict=True)):
        # Group names alternate between two rows, as close rungs leave no room for two names side by side.
        row = margins.top - 12 - (_LABEL_ROW * (position % 2) if ladder.is_by_groups else 0.0)
        top = 1 + (margins.top - row - 4) / (height - margins.top - margins.bottom)
        axes.axvline(distance, 0, top, color=FAINT, linewidth=1, dashes=(2, 3))
        x = float(axes.transData.transform((distance, 0))[0])
        tip = f"rung {rung.number}: {rung.split}, distance {distance:.4g}"
        plot.text(axes, (x, row), cut(rung.group, 16) or str(rung.number), "axis", tip=tip)
    plot.text(axes, (344, height - 6), "distance between training and test classes", "axis")
    plot.series(axes, lines)
    plot.name_ends(axes, lines)
    return to_svg(axes, description)


@our_look()
def method_panel(
    ladder: LadderResult, curve: MethodCurve, style: SeriesStyle, score: str, *, percent: bool
) -> Markup | None:
    """One method among all others: its interval over classes as a band, its seeds as marks, the others faint."""
    if not finite(curve.means(score)):
        return None
    distances = ladder.distances()
    low, high = zip(*(interval or (math.nan, math.nan) for interval in curve.intervals(score)), strict=True)
    values = [value for other in ladder.curves for value in other.means(score)]
    axes = plot.area(250, 160, SMALL)
    plot.scale(axes, distances, finite([*values, *low, *high]), percent=percent)
    for other in ladder.curves:
        if other is not curve:
            plot.line(axes, list(zip(distances, other.means(score), strict=True)), "thin", SeriesStyle(GREY))
    if len(finite(low)) > 1:
        band = axes.fill_between(distances, low, high, color=style.colour, alpha=0.2, linewidth=0)
        annotate(band, "band")
    plot.line(axes, list(zip(distances, curve.means(score), strict=True)), "line", style)
    seeds, tips = _seeds(curve, distances, score, percent=percent)
    plot.marks(axes, seeds, "seed", style.colour, tips)
    description = f"{isolated(score)} of {isolated(curve.method)} over distance, with the interval over classes"
    return to_svg(axes, description)


def _seeds(curve: MethodCurve, distances: Sequence[float], score: str, *, percent: bool) -> tuple[Points, list[str]]:
    """A point and a tool tip for each seed on each rung."""
    points, tips = [], []
    for x, entry, interval in zip(distances, curve.entries, curve.intervals(score), strict=True):
        ends = "" if interval is None else " to ".join(number(end, percent=percent) for end in interval)
        for row in entry.rows if entry else ():
            value = row.scores.get(score, math.nan)
            points.append((x, value))
            tips.append(
                f"seed {row.seed}: {number(value, percent=percent)}" + (f"; other classes: {ends}" if ends else "")
            )
    return points, tips


@our_look()
def relation_chart(relation: Relation, styles: Mapping[str, SeriesStyle], *, percent: bool) -> Markup | None:
    """A retrieval score over a structure score, a mark for each trained method and rung, with the trend lines."""
    points = relation.points
    if len(points) < 2:
        return None
    xs, starts = [point.structure for point in points], [point.structure for point in points if point.is_start]
    axes = plot.area(250, 170, SMALL)
    plot.scale(axes, xs, [point.retrieval for point in points], percent=percent)
    for point in points:
        tip = f"{isolated(cut(point.method, 80))}, {isolated(cut(point.split, 80))}"
        colour = styles[point.method].colour if point.method in styles else SERIES[0]
        at = [(point.structure, point.retrieval)]
        plot.marks(axes, at, "point", colour, [tip], shape="D" if point.is_start else "o")
    for trend, values, role in ((relation.everywhere, xs, "trend"), (relation.at_start, starts, "trend start")):
        if math.isfinite(trend.slope):
            ends = [(x, trend.intercept + trend.slope * x) for x in (min(values), max(values))]
            style = SeriesStyle(INK, DASHES[1] if role == "trend start" else None)
            plot.line(axes, ends, role, style, str(trend.correlation))
    words = f"{isolated(relation.retrieval)} over {isolated(relation.structure)}: {relation.everywhere.correlation}"
    return to_svg(axes, words)
