"""Charts: scores by method and split, learning curves, and the small bars of the ranking table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unseen.core.text import cut, full, isolated, listed, number, signed
from unseen.figures.drawing import SHAPES, Drawing, Label, Path, line, mark, series, short, spread, ticks
from unseen.studies.results.content import Row
from unseen.studies.results.paired import PairedScore, paired_texts
from unseen.studies.results.ranking import Entry, Ranking

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Scale:
    """A linear map from values to places."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value."""
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


def finite(values: Sequence[float]) -> list[float]:
    """The values that are finite."""
    return [value for value in values if math.isfinite(value)]


def strip(entry: Entry, score: str, highest: float, *, percent: bool) -> Drawing | None:
    """The bar of one table row: its mean as a bar from zero, its seeds as dots; None without finite values."""
    summary = entry.summary(score)
    values = finite(summary.values)
    if not values or min(values) < 0 or not highest > 0:
        return None
    place = Scale(0, highest, 2, 158)
    css = "c0" if entry.is_trained else "muted"
    drawing = Drawing(160, 18, f"{number(summary.mean, percent=percent)} of {number(highest, percent=percent)}")
    drawing.paths.append(Path("M2 9H158", "track"))
    if math.isfinite(summary.mean):
        drawing.paths.append(Path(f"M2 9H{short(place(summary.mean))}", f"bar {css}"))
    for row in entry.rows:
        value = row.scores.get(score, math.nan)
        if math.isfinite(value):
            title = f"seed {row.seed}: {number(value, percent=percent)}"
            drawing.paths.append(Path(mark(place(value), 9, 3.2), f"seed {css}", title))
    return drawing


def reach(paired: Sequence[PairedScore]) -> tuple[float, float]:
    """What an axis must show of differences: their intervals, their seeds, and 0."""
    numbers = [number for each in paired for number in (each.low, each.high, *each.by_seed.values())]
    everything = [0.0, *finite(numbers)]
    return min(everything), max(everything)


def difference_strip(paired: PairedScore, ends: tuple[float, float], *, percent: bool) -> Drawing | None:
    """The mark of one difference on an axis that rows share: its interval as a line, 0 as a rule, seeds as dots."""
    if not all(map(math.isfinite, (paired.value, paired.low, paired.high))):
        return None
    place = Scale(*ends, 6, 154) if ends[0] < ends[1] else Scale(-1, 1, 6, 154)
    value, deviation, interval = paired_texts(paired, percent=percent)
    css = paired.verdict or "muted"
    drawing = Drawing(160, 22, f"{value} ± {deviation}, interval {interval}")
    drawing.paths.append(Path(f"M{short(place(0))} 0V22", "zero"))
    drawing.paths.append(Path(f"M{short(place(paired.low))} 8H{short(place(paired.high))}", f"reach {css}", interval))
    for seed, difference in paired.by_seed.items():
        if math.isfinite(difference):
            title = f"seed {seed}: {signed(difference, percent=percent)}"
            drawing.paths.append(Path(mark(place(difference), 17, 2.2), f"seed {css}", title))
    drawing.paths.append(Path(mark(place(paired.value), 8, 4.4, "diamond"), f"mean {css}", f"mean: {value}"))
    return drawing


def score_chart(tables: Sequence[Ranking], *, percent: bool) -> Drawing | None:
    """The main score of each method on every split of one data set: means as marks, seeds as small ones.

    Methods are ordered by their mean over the splits; a line joins the means of one method, so that its length is
    what is lost from split to split. Un-trained methods stand below a rule.
    """
    score = tables[0].main_score
    lines = _lines(tables, score)
    everything = finite(
        [value for entries in lines.values() for e in entries if e for value in e.summary(score).values]
    )
    if len(everything) < 2:
        return None  # a single number is no chart
    marks = _axis(min(everything), max(everything), percent=percent)
    left, right, top, pitch = 216.0, 704.0, 18.0, 40.0
    place = Scale(marks[0], marks[-1], left, right)
    count = sum(is_trained for _, is_trained in lines)
    gap = 18.0 if 0 < count < len(lines) else 0.0
    bottom = top + pitch * len(lines) + gap
    unit = " %" if percent else ""
    drawing = Drawing(
        860, bottom + 30, f"{isolated(score)} of each method on {listed(isolated(t.split) for t in tables)}"
    )
    for value in marks:
        drawing.paths.append(Path(f"M{short(place(value))} {short(top)}V{short(bottom)}", "grid"))
        drawing.labels.append(
            Label(place(value), bottom + 18, f"{100 * value:g}{unit}" if percent else f"{value:g}", "tick", "middle")
        )
    if gap:
        level = top + pitch * count + gap / 2
        drawing.paths.append(Path(f"M0 {short(level)}H860", "rule"))
    for position, ((method, is_trained), entries) in enumerate(lines.items()):
        middle = top + pitch * (position + 0.5) + (0.0 if is_trained else gap)
        css = "method" if is_trained else "method apart"
        drawing.labels.append(Label(left - 20, middle + 4, cut(method, 30), css, "end", full(method)))
        _dots(drawing, tables, entries, score, place, middle, percent=percent)
    return drawing


def _axis(low: float, high: float, *, percent: bool) -> list[float]:
    """Ticks around the values: at least ten points of a percentage, and never below 0 or above 100 of them."""
    if percent and high - low < 0.1:
        middle = (low + high) / 2
        low, high = max(0.0, middle - 0.05), min(1.0, middle + 0.05)
    found = ticks(low, high, 6)
    return [value for value in found if 0 <= value <= 1] if percent else found


def _lines(tables: Sequence[Ranking], score: str) -> dict[tuple[str, bool], list[Entry | None]]:
    found: dict[tuple[str, bool], list[Entry | None]] = {}
    for position, table in enumerate(tables):
        for entry in table.entries:
            found.setdefault((entry.method, entry.is_trained), [None] * len(tables))[position] = entry
    sign = 1 if score in tables[0].lower_is_better else -1

    def order(key: tuple[str, bool]) -> tuple[bool, float, str]:
        means = finite([entry.summary(score).mean for entry in found[key] if entry])
        return (not key[1], sign * math.fsum(means) / len(means) if means else math.inf, key[0])

    return {key: found[key] for key in sorted(found, key=order)}


def _dots(
    drawing: Drawing,
    tables: Sequence[Ranking],
    entries: Sequence[Entry | None],
    score: str,
    place: Scale,
    middle: float,
    *,
    percent: bool,
) -> None:
    step = 0.0 if len(tables) == 1 else min(9.0, 26.0 / (len(tables) - 1))
    joined: Points = []
    shapes, words = [], []
    for position, (table, entry) in enumerate(zip(tables, entries, strict=True)):
        level = middle + step * (position - (len(tables) - 1) / 2)
        css, shape = f"c{position % 6}", SHAPES[position % len(SHAPES)]
        mean = entry.summary(score).mean if entry else math.nan
        words.append(number(mean, percent=percent) if math.isfinite(mean) else "–")
        if entry is None:
            continue
        where = f"{isolated(cut(entry.method, 80))}, {isolated(cut(table.split, 80))}"
        for row in entry.rows:
            value = row.scores.get(score, math.nan)
            if math.isfinite(value):
                title = f"{where}, seed {row.seed}: {number(value, percent=percent)}"
                shapes.append(Path(mark(place(value), level, 2.6, shape), f"seed {css}", title))
        if math.isfinite(mean):
            joined.append((place(mean), level))
            shapes.append(Path(mark(place(mean), level, 5.4, shape), f"mean {css}", f"{where}, mean: {words[-1]}"))
    if len(joined) > 1:
        drawing.paths.append(Path(line(joined), "join"))
    drawing.paths.extend(shapes)
    drawing.labels.append(Label(856, middle + 4, " → ".join(words[:4]), "value", "end"))


def curve(rows: Sequence[Row], pick: str) -> list[Points]:
    """One line a row over epochs: "loss", or the name of a validation score; rows without it give nothing."""
    lines = []
    for row in rows:
        epochs = [entry.get("epoch") for entry in row.history]
        axis = "epoch" if len(set(epochs)) == len(epochs) else "step"
        points = []
        for entry in row.history:
            found = entry.get("loss") if pick == "loss" else (entry.get("validation") or {}).get(pick)
            if found is not None and entry.get(axis) is not None:
                points.append((float(entry[axis]), float(found)))
        if points:
            lines.append(points)
    return lines


def mean_curve(lines: Sequence[Points]) -> Points:
    """The mean of the lines at each place that all of them have."""
    if not lines:
        return []
    tables = [dict(points) for points in lines]
    shared = [x for x, _ in lines[0] if all(x in table for table in tables)]
    return [(x, math.fsum(table[x] for table in tables) / len(tables)) for x in shared]


def curve_chart(
    named: Sequence[tuple[str, Sequence[Points]]],
    places: Mapping[str, int],
    words: str,
    *,
    percent: bool,
    is_small: bool = False,
) -> Drawing | None:
    """Curves of one or more methods: the mean as a thick line, each seed as a thin one, names at the ends."""
    points = [p for _, lines in named for own in lines for p in own if math.isfinite(p[0]) and math.isfinite(p[1])]
    if not points:
        return None
    width, height = (250.0, 150.0) if is_small else (860.0, 330.0)
    left, right, top, bottom = (40.0, width - 10, 10.0, height - 24) if is_small else (48.0, 640.0, 12.0, height - 42)
    levels = ticks(min(y for _, y in points), max(y for _, y in points), 3 if is_small else 5)
    if percent:
        levels = [level for level in levels if level <= 1]  # nobody reaches 120 %
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    across, up = Scale(first, last, left, right), Scale(levels[0], levels[-1], bottom, top)
    drawing = Drawing(width, height, words)
    for value in levels:
        text = f"{100 * value:g}" if percent else f"{value:g}"
        drawing.paths.append(Path(f"M{short(left)} {short(up(value))}H{short(right)}", "grid"))
        drawing.labels.append(Label(left - 8, up(value) + 4, text, "tick", "end"))
    steps = [x for x in ticks(first, last, 4 if is_small else 6) if first <= x <= last and x == int(x)]
    for x in steps or [first]:
        drawing.labels.append(Label(across(x), bottom + 17, f"{x:g}", "tick", "middle"))
    if not is_small:
        drawing.labels.append(Label((left + right) / 2, height - 4, "epoch", "tick", "middle"))
    ends = []
    for method, lines in named:
        css = series(places[method])
        for own in lines if len(lines) > 1 else ():
            drawing.paths.append(Path(line([(across(x), up(y)) for x, y in own]), f"thin {css}"))
        mean = [(across(x), up(y)) for x, y in mean_curve(lines)]
        drawing.paths.append(Path(line(mean), f"thick {css}", full(method)))
        visible = [point for point in mean if math.isfinite(point[1])]
        if visible:
            ends.append((method, visible[-1], css))
    if not is_small:
        rows = spread([end[1][1] for end in ends], 17.0, top + 4, bottom + 12)
        for (method, (x, y), css), level in zip(ends, rows, strict=True):
            drawing.paths.append(Path(line([(x + 4, y), (right + 14, level), (right + 20, level)]), f"leader {css}"))
            drawing.labels.append(Label(right + 25, level + 4, cut(method, 26), f"method {css}", "start", full(method)))
    return drawing
