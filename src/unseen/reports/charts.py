"""Charts: scores by method and split, learning curves, and the small bars of the ranking table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from markupsafe import Markup

from unseen.analyses.shift.ladder_results import MethodCurve, method_curves
from unseen.core.text import cut, isolated, listed, number, signed
from unseen.figures import plot, style
from unseen.figures.plot import Margins, Points, Series, finite
from unseen.figures.style import MARKS, SERIES, SeriesStyle, our_look, series_style, ticks
from unseen.figures.svg import to_svg
from unseen.studies.results.content import Row
from unseen.studies.results.paired import PairedScore, paired_texts
from unseen.studies.results.ranking import MethodScores, Ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHAPES = MARKS[:4]
_ROW_HEIGHT = 40.0
_SCORES = Margins(left=216, right=156, top=18, bottom=30)


@our_look()
def score_bar(entry: MethodScores, score: str, highest: float, *, percent: bool) -> Markup | None:
    """The bar of one table row: the mean as a bar from zero, seeds as dots; None without finite values."""
    summary = entry.summary(score)
    values = finite(summary.values)
    if not values or min(values) < 0 or not highest > 0:
        return None
    colour = style.BLUE if entry.is_trained else style.GREY
    axes = _row_area(18, Margins(left=2, right=2, top=0, bottom=0), (0, highest))
    plot.line(axes, [(0, 9), (highest, 9)], "track", SeriesStyle(style.WASH))
    if math.isfinite(summary.mean):
        plot.line(axes, [(0, 9), (summary.mean, 9)], "bar", SeriesStyle(colour))
    seeds = [(row.seed, row.scores.get(score, math.nan)) for row in entry.rows]
    tips = [f"seed {seed}: {number(value, percent=percent)}" for seed, value in seeds]
    plot.marks(axes, [(value, 9) for _, value in seeds], "seed bar", colour, tips)
    return to_svg(axes, f"{number(summary.mean, percent=percent)} of {number(highest, percent=percent)}", "strip")


def difference_range(paired: Sequence[PairedScore]) -> tuple[float, float]:
    """What a common axis of differences must show: their intervals, their seeds, and 0."""
    values = [value for one in paired for value in (one.low, one.high, *one.by_seed.values())]
    visible = [0.0, *finite(values)]
    return min(visible), max(visible)


@our_look()
def difference_bar(paired: PairedScore, limits: tuple[float, float], *, percent: bool) -> Markup | None:
    """One difference on an axis that rows share: its interval as a line, 0 as a rule, seeds as dots."""
    if not all(map(math.isfinite, (paired.value, paired.low, paired.high))):
        return None
    value, deviation, interval = paired_texts(paired, percent=percent)
    colour = {"better": style.BETTER, "worse": style.WORSE, "": style.GREY}[paired.verdict]
    limits = limits if limits[0] < limits[1] else (-1, 1)
    axes = _row_area(22, Margins(left=6, right=6, top=0, bottom=0), limits)
    plot.line(axes, [(0, 0), (0, 22)], "zero", SeriesStyle(style.GREY))
    plot.line(axes, [(paired.low, 8), (paired.high, 8)], "interval", SeriesStyle(colour), interval)
    tips = [f"seed {seed}: {signed(one, percent=percent)}" for seed, one in paired.by_seed.items()]
    plot.marks(axes, [(one, 17.0) for one in paired.by_seed.values()], "seed difference", colour, tips)
    plot.marks(axes, [(paired.value, 8)], "mean difference", colour, [f"mean: {value}"], shape="D")
    return to_svg(axes, f"{value} ± {deviation}, interval {interval}", "strip difference")


def _row_area(height: float, margins: Margins, limits: tuple[float, float]) -> "Axes":
    """A plot area for one table row; y counts pixels from the top."""
    axes = plot.area(160, height, margins)
    axes.set_axis_off()
    axes.set_xlim(*limits)
    axes.set_ylim(height, 0)
    return axes


@our_look()
def score_chart(tables: Sequence[Ranking], *, percent: bool) -> Markup | None:
    """The main score of each method on every split of one data set: means as large marks, seeds as small ones.

    Methods are ordered by their mean over the splits. A line joins the means of one method and so shows the loss
    from split to split. Untrained methods stand below a dotted rule.
    """
    score = tables[0].main_score
    sign = 1 if score in tables[0].lower_is_better else -1

    def order(method: MethodCurve) -> tuple[bool, float, str]:
        means = finite(method.means(score))
        return (not method.is_trained, sign * math.fsum(means) / len(means) if means else math.inf, method.method)

    methods = sorted(method_curves(tables), key=order)
    values = finite([value for method in methods for summary in method.summaries(score) for value in summary.values])
    if len(values) < 2:
        return None  # a single number is no chart
    trained = sum(row.is_trained for row in methods)
    gap = 18.0 if 0 < trained < len(methods) else 0.0
    height = _SCORES.top + _ROW_HEIGHT * len(methods) + gap + _SCORES.bottom
    axes = plot.area(860, height, _SCORES)
    levels = _levels(min(values), max(values), percent=percent)
    axes.set_xlim(levels[0], levels[-1])
    axes.set_xticks(levels, [plot.tick_label(level, percent=percent) + (" %" if percent else "") for level in levels])
    axes.set_ylim(height - _SCORES.bottom, _SCORES.top)  # pixels from the top
    axes.set_yticks([])
    if gap:
        axes.axhline(_SCORES.top + _ROW_HEIGHT * trained + gap / 2, -1, 2, color=style.GREY, linewidth=1, dashes=(1, 4))
    for position, row in enumerate(methods):
        middle = _SCORES.top + _ROW_HEIGHT * (position + 0.5) + (0.0 if row.is_trained else gap)
        role = "method" if row.is_trained else "method apart"
        plot.text(axes, (_SCORES.left - 20, middle + 4), row.method, role)
        means = _draw_means(axes, tables, row, middle, percent=percent)
        plot.text(axes, (856, middle + 4), " → ".join(means[:4]), "value")
    return to_svg(axes, f"{isolated(score)} of each method on {listed(isolated(table.split) for table in tables)}")


def _levels(low: float, high: float, *, percent: bool) -> list[float]:
    """Ticks around the values: at least ten points of a percentage, and never below 0 or above 100 of them."""
    if percent and high - low < 0.1:
        middle = (low + high) / 2
        low, high = max(0.0, middle - 0.05), min(1.0, middle + 0.05)
    levels = ticks(low, high, 6)
    return [level for level in levels if 0 <= level <= 1] if percent else levels


def _draw_means(
    axes: "Axes", tables: Sequence[Ranking], row: MethodCurve, middle: float, *, percent: bool
) -> list[str]:
    """Draw the marks of one method, one level for each split, and return its means in words."""
    score = tables[0].main_score
    step = 0.0 if len(tables) == 1 else min(9.0, 26.0 / (len(tables) - 1))
    levels = [middle + step * (position - (len(tables) - 1) / 2) for position in range(len(tables))]
    means = row.means(score)
    words = [number(mean, percent=percent) if math.isfinite(mean) else "–" for mean in means]
    joined = [(mean, level) for mean, level in zip(means, levels, strict=True) if math.isfinite(mean)]
    if len(joined) > 1:
        plot.line(axes, joined, "join", SeriesStyle(style.GREY))
    for position, (table, entry, level) in enumerate(zip(tables, row.entries, levels, strict=True)):
        if entry is None:
            continue
        colour, shape = SERIES[position % len(SERIES)], _SHAPES[position % len(_SHAPES)]
        where = f"{isolated(cut(entry.method, 80))}, {isolated(cut(table.split, 80))}"
        seeds = [(seed.seed, seed.scores.get(score, math.nan)) for seed in entry.rows]
        tips = [f"{where}, seed {seed}: {number(value, percent=percent)}" for seed, value in seeds]
        plot.marks(axes, [(value, level) for _, value in seeds], "seed", colour, tips, shape=shape)
        tip = f"{where}, mean: {words[position]}"
        plot.marks(axes, [(means[position], level)], "mean", colour, [tip], shape=shape)
    return words


def curve(rows: Sequence[Row], quantity: str) -> list[list[tuple[float, float]]]:
    """One line per row over epochs: "loss", or the name of a validation score; rows without it are left out."""
    lines = []
    for row in rows:
        epochs = [entry.get("epoch") for entry in row.history]
        axis = "epoch" if len(set(epochs)) == len(epochs) else "step"
        points = []
        for entry in row.history:
            value = entry.get("loss") if quantity == "loss" else (entry.get("validation") or {}).get(quantity)
            if value is not None and entry.get(axis) is not None:
                points.append((float(entry[axis]), float(value)))
        if points:
            lines.append(points)
    return lines


def mean_curve(lines: Sequence[Points]) -> list[tuple[float, float]]:
    """The mean of the lines at each x that all of them have."""
    if not lines:
        return []
    tables = [dict(points) for points in lines]
    shared = [x for x, _ in lines[0] if all(x in table for table in tables)]
    return [(x, math.fsum(table[x] for table in tables) / len(tables)) for x in shared]


@our_look()
def curve_chart(
    curves: Mapping[str, Sequence[Points]],
    positions: Mapping[str, int],
    description: str,
    *,
    percent: bool,
    is_small: bool = False,
) -> Markup | None:
    """Curves of methods over epochs: the mean as a thick line, each seed as a thin one, names at the ends.

    `positions` decides the colour of a method. A small chart has no names.
    """
    points = [point for lines in curves.values() for line in lines for point in line if all(map(math.isfinite, point))]
    if not points:
        return None
    every = [
        Series(method, series_style(positions[method]), mean_curve(lines), seeds=lines if len(lines) > 1 else ())
        for method, lines in curves.items()
    ]
    axes = plot.area(250, 150, plot.SMALL) if is_small else plot.area(860, 330, replace(plot.WIDE, top=12, bottom=42))
    plot.scale(axes, [x for x, _ in points], [y for _, y in points], percent=percent, is_epochs=True)
    plot.series(axes, every)
    if not is_small:
        plot.text(axes, (344, 326), "epoch", "axis")
        plot.name_ends(axes, every)
    return to_svg(axes, description)
