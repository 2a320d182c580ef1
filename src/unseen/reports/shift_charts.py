"""Charts over distance: methods and backbones over the rungs of a ladder, and structure against retrieval."""

import math
from collections.abc import Mapping, Sequence

from unseen.analyses.shift.capacity import Backbone
from unseen.analyses.shift.ladder_results import LadderResult, MethodCurve
from unseen.analyses.shift.structure_trends import Relation, Trend
from unseen.core.text import cut, full, isolated, number
from unseen.figures.drawing import Drawing, Label, Path, line, mark, series, short, spread, ticks
from unseen.reports.charts import Points, Scale, finite

_LEFT, _RIGHT, _TOP = 48.0, 640.0, 26.0
_ROW = 15.0  # between two rows of names above a chart


def colours(climb: LadderResult) -> dict[int, str]:
    """The style-sheet classes of each method by its position: trained ones by name, as in the curves over epochs."""
    names = sorted({course.method for course in climb.curves if course.is_trained})
    untrained = [place for place, course in enumerate(climb.curves) if not course.is_trained]
    return {
        place: series(names.index(course.method)) if course.is_trained else f"muted d{1 + untrained.index(place) % 2}"
        for place, course in enumerate(climb.curves)
    }


def distance_chart(climb: LadderResult, score: str, *, percent: bool) -> Drawing | None:
    """A score of every method over the distance of the rungs: means as a line, the spread of seeds as bars."""
    css = colours(climb)
    lines = []
    for place, course in enumerate(climb.curves):
        bars = [(summary.mean, summary.deviation or 0.0) for summary in course.summaries(score)]
        lines.append((course.method, css[place], bars))
    return _lines_chart(climb, lines, f"{isolated(score)} of each method over distance", percent=percent)


def capacity_chart(climb: LadderResult, backbones: Sequence[Backbone], score: str, *, percent: bool) -> Drawing | None:
    """A score of every backbone over the distance of the rungs; without training in the same colour, dashed."""
    lines = []
    for place, backbone in enumerate(backbones):
        lines.append((backbone.name, f"c{place % 6} d0", [(mean, 0.0) for mean in backbone.trained]))
        if finite(backbone.untrained):
            name = f"{backbone.name}, un-trained"
            lines.append((name, f"c{place % 6} d1", [(mean, 0.0) for mean in backbone.untrained]))
    return _lines_chart(climb, lines, f"{isolated(score)} of each backbone over distance", percent=percent)


def _lines_chart(
    climb: LadderResult, lines: Sequence[tuple[str, str, Sequence[tuple[float, float]]]], words: str, *, percent: bool
) -> Drawing | None:
    ends = finite([mean + side * spread_of for _, _, bars in lines for mean, spread_of in bars for side in (-1, 1)])
    if not ends:
        return None
    height = max(380.0, 17.0 * len(lines) + 70)
    bottom = height - 46
    distances = climb.distances()
    top = _TOP + _ROW if climb.is_by_groups else _TOP
    across, up, drawing = _frame(distances, ends, (860.0, height), (_LEFT, _RIGHT, top, bottom), words, percent=percent)
    for place, (distance, step) in enumerate(zip(distances, climb.steps, strict=True)):
        # Names in two rows by turns, as near rungs leave no room for two names side by side.
        row = top - 12 - _ROW * (place % 2) if climb.is_by_groups else top - 12
        drawing.paths.append(Path(f"M{short(across(distance))} {short(row + 4)}V{short(bottom)}", "rung"))
        title = f"rung {step.number}: {step.split}, distance {distance:.4g}"
        drawing.labels.append(
            Label(across(distance), row, cut(step.group, 16) or str(step.number), "tick", "middle", title)
        )
    drawing.labels.append(
        Label((_LEFT + _RIGHT) / 2, height - 6, "distance of training and test classes", "tick", "middle")
    )
    last = []
    for name, css, bars in lines:
        points: Points = [(across(x), up(mean)) for x, (mean, _) in zip(distances, bars, strict=True)]
        for (x, _), (mean, deviation) in zip(points, bars, strict=True):
            if deviation and math.isfinite(mean):
                drawing.paths.append(
                    Path(f"M{short(x)} {short(up(mean - deviation))}V{short(up(mean + deviation))}", f"whisker {css}")
                )
        drawing.paths.append(Path(line(points), f"thick {css}", full(name)))
        for step, (x, y), (mean, deviation) in zip(climb.steps, points, bars, strict=True):
            if math.isfinite(y):
                seeds = f" ± {number(deviation, percent=percent)}" if deviation else ""
                title = f"{isolated(cut(name, 80))}, rung {step.number}: {number(mean, percent=percent)}{seeds}"
                drawing.paths.append(Path(mark(x, y, 3.4), f"mean {css}", title))
        visible = [point for point in points if math.isfinite(point[1])]
        if visible:
            last.append((name, visible[-1], css))
    rows = spread([y for _, (_, y), _ in last], 17.0, top + 4, bottom + 12)
    for (name, (x, y), css), level in zip(last, rows, strict=True):
        drawing.paths.append(Path(line([(x + 6, y), (_RIGHT + 14, level), (_RIGHT + 20, level)]), f"leader {css}"))
        drawing.labels.append(Label(_RIGHT + 25, level + 4, cut(name, 26), f"method {css}", "start", full(name)))
    return drawing


def course_panel(climb: LadderResult, course: MethodCurve, css: str, score: str, *, percent: bool) -> Drawing | None:
    """One method among all others: the band of other classes around it, its seeds as marks, the others faint."""
    everything = [value for each in climb.curves for value in each.means(score)]
    own = [end for interval in course.intervals(score) if interval for end in interval]
    if not finite(course.means(score)):
        return None
    distances = climb.distances()
    words = f"{isolated(score)} of {isolated(course.method)} over distance, with the interval over classes"
    across, up, drawing = _frame(
        distances, finite(everything + own), (250.0, 160.0), (36.0, 242.0, 8.0, 138.0), words, percent=percent
    )
    for other in climb.curves:
        if other is not course:
            points = [(across(x), up(y)) for x, y in zip(distances, other.means(score), strict=True)]
            drawing.paths.append(Path(line(points), "thin muted"))
    drawing.paths.extend(Path(band, f"band {css}") for band in _bands(distances, course.intervals(score), across, up))
    means = [(across(x), up(y)) for x, y in zip(distances, course.means(score), strict=True)]
    drawing.paths.append(Path(line(means), f"thick {css}"))
    for x, entry, interval in zip(distances, course.entries, course.intervals(score), strict=True):
        for row in entry.rows if entry else ():
            value = row.scores.get(score, math.nan)
            if math.isfinite(value):
                ends = "" if interval is None else " to ".join(number(end, percent=percent) for end in interval)
                title = f"seed {row.seed}: {number(value, percent=percent)}" + (
                    f"; other classes: {ends}" if ends else ""
                )
                drawing.paths.append(Path(mark(across(x), up(value), 2.4), f"seed {css}", title))
    return drawing


def _bands(
    distances: Sequence[float], intervals: Sequence[tuple[float, float] | None], across: Scale, up: Scale
) -> list[str]:
    """The area between the ends, in one piece for each run of rungs that have an interval."""
    pieces: list[list[tuple[float, float, float]]] = [[]]
    for x, interval in zip(distances, intervals, strict=True):
        if interval is None or not all(map(math.isfinite, interval)):
            pieces.append([])
        else:
            pieces[-1].append((across(x), up(interval[0]), up(interval[1])))
    return [
        line([(x, low) for x, low, _ in piece] + [(x, high) for x, _, high in reversed(piece)]) + "z"
        for piece in pieces
        if len(piece) > 1
    ]


def relation_chart(found: Relation, css: Mapping[str, str], *, percent: bool) -> Drawing | None:
    """A retrieval score over a structure score, a mark for each trained method and rung, with the trend lines."""
    if len(found.points) < 2:
        return None
    xs, ys = ([getattr(point, side) for point in found.points] for side in ("structure", "retrieval"))
    words = f"{isolated(found.retrieval)} over {isolated(found.structure)}: {found.everywhere.correlation}"
    across, up, drawing = _frame(xs, ys, (250.0, 170.0), (36.0, 242.0, 8.0, 148.0), words, percent=percent)
    for point in found.points:
        shape = "diamond" if point.is_start else "circle"
        title = f"{isolated(cut(point.method, 80))}, {isolated(cut(point.split, 80))}"
        place = mark(across(point.structure), up(point.retrieval), 3.0, shape)
        drawing.paths.append(Path(place, f"point {css.get(point.method, 'c0')}", title))
    starts = [point.structure for point in found.points if point.is_start]
    for trend, places, kind in ((found.everywhere, xs, "trend"), (found.at_start, starts, "trend start")):
        if math.isfinite(trend.slope):
            drawing.paths.append(Path(line(_ends(trend, places, across, up)), kind, str(trend.correlation)))
    return drawing


def _ends(trend: Trend, places: Sequence[float], across: Scale, up: Scale) -> Points:
    return [(across(x), up(trend.intercept + trend.slope * x)) for x in (min(places), max(places))]


def _frame(
    xs: Sequence[float],
    ys: Sequence[float],
    size: tuple[float, float],
    inner: tuple[float, float, float, float],
    words: str,
    *,
    percent: bool,
) -> tuple[Scale, Scale, Drawing]:
    """An empty chart with its grid and both axes, and the places of values in it."""
    left, right, top, bottom = inner
    is_small = size[0] < 400
    levels = ticks(min(ys), max(ys), 3 if is_small else 5)
    if percent:
        levels = [level for level in levels if 0 <= level <= 1] or levels
    up = Scale(min(levels[0], min(ys)), max(levels[-1], max(ys)), bottom, top)
    margin = 0.03 * ((max(xs) - min(xs)) or 1.0)
    across = Scale(min(xs) - margin, max(xs) + margin, left, right)
    drawing = Drawing(*size, words)
    for value in levels:
        text = f"{100 * value:g}" if percent else f"{value:g}"
        drawing.paths.append(Path(f"M{short(left)} {short(up(value))}H{short(right)}", "grid"))
        drawing.labels.append(Label(left - 6, up(value) + 4, text, "tick", "end"))
    for value in ticks(min(xs), max(xs), 4 if is_small else 8):
        if across.low <= value <= across.high:
            drawing.labels.append(Label(across(value), bottom + 16, f"{value:g}", "tick", "middle"))
    return across, up, drawing
