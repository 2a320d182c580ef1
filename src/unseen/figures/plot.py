"""Building blocks of the report's charts: a plot area in pixels; lines, marks and texts, each styled by its role."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unseen.core.text import cut, plain
from unseen.figures.style import GREY, INK, PAPER, SOFT, SeriesStyle, spread_labels, ticks
from unseen.figures.svg import annotate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[float, float]]

# By role, which is also the class in the SVG. Lines: width in pixels, opacity.
LINES = {
    "line": (2.4, 1.0),
    "thin": (1.0, 0.45),
    "whisker": (2.0, 0.55),
    "join": (1.4, 0.6),
    "leader": (1.0, 0.45),
    "trend": (1.6, 0.75),
    "trend start": (1.6, 0.55),
    "track": (6.0, 1.0),
    "bar": (6.0, 0.38),
    "interval": (3.0, 0.55),
    "zero": (1.0, 1.0),
}
# Marks: radius in pixels, opacity, width of the rim.
MARKS = {
    "mean": (5.4, 1.0, 1.5),
    "mean rung": (3.4, 1.0, 1.5),
    "mean difference": (4.4, 1.0, 1.5),
    "seed": (2.6, 0.5, 0.8),
    "seed bar": (3.2, 0.9, 0.8),
    "seed difference": (2.2, 0.9, 0.8),
    "point": (3.0, 0.75, 0.0),
}
# Texts: anchor, size in pixels, colour, most characters.
TEXTS = {
    "method": ("right", 13.0, INK, 30),
    "method apart": ("right", 13.0, SOFT, 30),
    "end": ("left", 13.0, INK, 26),
    "value": ("right", 12.5, SOFT, 80),
    "axis": ("center", 11.5, GREY, 60),
}
_PER_INCH = 72  # pixels of an SVG figure
_SMALL = 400.0  # charts narrower than this have fewer ticks
_LINE_HEIGHT = 17.0


@dataclass(frozen=True)
class Margins:
    """Pixels between the edges of a chart and its plot area."""

    left: float
    right: float
    top: float
    bottom: float


WIDE = Margins(left=48, right=220, top=26, bottom=46)
SMALL = Margins(left=36, right=8, top=8, bottom=22)


@dataclass(frozen=True)
class Series:
    """A named line.

    ==========  =================================================================
    points      its (x, y); a y that is not finite breaks the line
    deviations  half the height of the whisker at each point; none where empty
    seeds       thin lines, one per seed
    tips        a tool tip for each point; no marks are drawn where empty
    ==========  =================================================================
    """

    name: str
    style: SeriesStyle
    points: Points
    deviations: Sequence[float] = ()
    seeds: Sequence[Points] = ()
    tips: Sequence[str] = ()


def finite(values: Sequence[float]) -> list[float]:
    """The values that are finite."""
    return [value for value in values if math.isfinite(value)]


def area(width: float, height: float, margins: Margins) -> "Axes":
    """Axes without a frame in a transparent figure of so many pixels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / _PER_INCH, height / _PER_INCH), dpi=_PER_INCH)
    figure.patch.set_visible(False)
    across, up = width - margins.left - margins.right, height - margins.top - margins.bottom
    axes = figure.add_axes((margins.left / width, margins.bottom / height, across / width, up / height))
    axes.set_frame_on(False)
    axes.tick_params(length=0, pad=6, labelsize=11.5, labelcolor=GREY)
    axes.grid(linewidth=1)
    return axes


def tick_label(value: float, *, percent: bool) -> str:
    """A tick as a string, a share in per cent.

    >>> tick_label(0.05, percent=True), tick_label(12.5, percent=False)
    ('5', '12.5')
    """
    return f"{100 * value:g}" if percent else f"{value:g}"


def scale(axes: "Axes", xs: Sequence[float], ys: Sequence[float], *, percent: bool, is_epochs: bool = False) -> None:
    """Limits and round ticks around the values; epochs are integers and fill the width."""
    is_small = axes.figure.bbox.width < _SMALL
    levels = ticks(min(ys), max(ys), 3 if is_small else 5)
    if percent:
        levels = [level for level in levels if 0 <= level <= 1] or levels
    low, high = min(levels[0], *ys), max(levels[-1], *ys)
    axes.set_ylim(low, high if high > low else low + 1)
    axes.set_yticks(levels, [tick_label(level, percent=percent) for level in levels])
    first, last = min(xs), max(xs)
    margin = 0.0 if is_epochs and last > first else 0.03 * ((last - first) or 1.0)
    axes.set_xlim(first - margin, last + margin)
    steps = ticks(first, last, 4 if is_small else 8, integer=is_epochs)
    steps = [x for x in steps if first - margin <= x <= last + margin and not (is_epochs and x != int(x))] or [first]
    axes.set_xticks(steps, [f"{x:g}" for x in steps])
    axes.grid(visible=False, axis="x")


def text(axes: "Axes", at: tuple[float, float], string: str, role: str, *, colour: str = "", tip: str = "") -> None:
    """A string at a pixel (from the left, from the top), cut where it is long; the tool tip is the whole string."""
    anchor, size, default, longest = TEXTS[role]
    artist = axes.annotate(
        cut(plain(string), longest),
        (at[0], axes.figure.bbox.height - at[1]),
        xycoords="figure pixels",
        ha=anchor,
        fontsize=size,
        color=colour or default,
        fontstyle="italic" if role == "method apart" else "normal",
        annotation_clip=False,
    )
    annotate(artist, role, tip or string)


def marks(axes: "Axes", points: Points, role: str, colour: str, tips: Sequence[str], *, shape: str = "o") -> None:
    """Marks with a rim in the colour of the page, each with its tool tip."""
    visible = [(x, y, tip) for (x, y), tip in zip(points, tips, strict=True) if math.isfinite(x) and math.isfinite(y)]
    if not visible:
        return
    radius, opacity, rim = MARKS[role]
    (artist,) = axes.plot(
        [x for x, _, _ in visible],
        [y for _, y, _ in visible],
        linestyle="none",
        marker=shape,
        markersize=2 * radius * (0.88 if shape in "Ds" else 1.0),
        color=colour,
        markeredgecolor=PAPER,
        markeredgewidth=rim,
        alpha=opacity,
    )
    annotate(artist, role, *(tip for _, _, tip in visible))


def line(axes: "Axes", points: Points, role: str, style: SeriesStyle, tip: str = "") -> None:
    """A line through the points; a single point is a dot."""
    ys = [y for _, y in points]
    width, opacity = LINES[role]
    (artist,) = axes.plot(
        [x for x, _ in points],
        ys,
        color=style.colour,
        linestyle="-" if style.dash is None else (0.0, style.dash),
        linewidth=width,
        alpha=opacity,
        marker="o" if len(finite(ys)) == 1 else "",
        markersize=width,
        markeredgewidth=0,
        solid_capstyle="butt" if role in ("track", "bar") else "round",
        dash_capstyle="round",
    )
    annotate(artist, role, tip)


def series(axes: "Axes", every: Sequence[Series]) -> None:
    """For each series: single seeds as thin lines, whiskers, the line, its marks."""
    for one in every:
        for points in one.seeds:
            line(axes, points, "thin", one.style)
        for (x, y), deviation in zip(one.points, one.deviations, strict=False):
            if deviation and math.isfinite(y):
                whisker = [(x, y - deviation), (x, y + deviation)]
                line(axes, whisker, "whisker", SeriesStyle(one.style.colour))
        if finite([y for _, y in one.points]):
            line(axes, one.points, "line", one.style, one.name)
        if one.tips:
            marks(axes, one.points, "mean rung", one.style.colour, one.tips)


def name_ends(axes: "Axes", every: Sequence[Series]) -> None:
    """The name of each series at the end of its line, moved apart where lines end close together."""
    pixels = axes.transData.inverted()
    height, edge = axes.figure.bbox.height, axes.bbox.x1
    ends = []
    for one in every:
        visible = [point for point in one.points if math.isfinite(point[1])]
        if visible:
            ends.append((one, *axes.transData.transform(visible[-1])))
    # Levels count from the bottom here, as matplotlib's do.
    levels = spread_labels([-y for _, _, y in ends], _LINE_HEIGHT, 4 - axes.bbox.y1, 12 - axes.bbox.y0)
    for (one, x, y), level in zip(ends, levels, strict=True):
        leader = pixels.transform([(x + 6, y), (edge + 14, -level), (edge + 20, -level)])
        line(axes, [(float(across), float(up)) for across, up in leader], "leader", SeriesStyle(one.style.colour))
        text(axes, (edge + 25, height + level + 4), one.name, "end", colour=one.style.colour)
