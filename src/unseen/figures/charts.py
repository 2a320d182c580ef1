"""Building blocks of the report's charts: a plot area in pixels, marks with tool tips, lines named at their ends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from unseen.core.text import cut, plain
from unseen.figures.style import GREY, INK, PAPER, SeriesStyle, spread_labels, ticks
from unseen.figures.svg import annotate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]

_PER_INCH = 72  # pixels of an SVG figure
_SMALL = 400.0  # charts narrower than this have fewer ticks
_LINE_HEIGHT = 17.0
_LONGEST_NAME = 26


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


@dataclass(frozen=True)
class Stroke:
    """How a line is drawn: its role (a class in the SVG), width in pixels, opacity, ends."""

    role: str
    width: float
    opacity: float = 1.0
    is_round: bool = True


@dataclass(frozen=True)
class Mark:
    """How marks are drawn: their role (a class in the SVG), radius in pixels, shape, opacity, width of the rim."""

    role: str
    radius: float
    shape: str = "o"
    opacity: float = 1.0
    rim: float = 1.5


@dataclass(frozen=True)
class Font:
    """How a text is drawn: its role (a class in the SVG), anchor, size in pixels, colour, most letters."""

    role: str = "label"
    anchor: Literal["left", "center", "right"] = "left"
    size: float = 13
    colour: str = INK
    is_italic: bool = False
    longest: int = 30


THICK, THIN, WHISKER = Stroke("line", 2.4), Stroke("thin", 1, 0.45), Stroke("whisker", 2, 0.55)
PLAIN = Font()
TICK = Font("tick", "center", 11.5, GREY)


@dataclass(frozen=True)
class Margins:
    """Pixels between the edges of a chart and its plot area."""

    left: float
    right: float
    top: float
    bottom: float


WIDE = Margins(left=48, right=220, top=26, bottom=46)
SMALL = Margins(left=36, right=8, top=8, bottom=22)


def finite(values: Sequence[float]) -> list[float]:
    """The values that are finite."""
    return [value for value in values if math.isfinite(value)]


def plot_area(width: float, height: float, margins: Margins) -> "Axes":
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


def figure_of(axes: "Axes") -> "Figure":
    """The figure that the axes fill."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def size_of(axes: "Axes") -> tuple[float, float]:
    """Width and height of the chart in pixels."""
    width, height = figure_of(axes).get_size_inches()
    return float(width) * _PER_INCH, float(height) * _PER_INCH


def tick_label(value: float, *, percent: bool) -> str:
    """A tick in words: a share in per cent.

    >>> tick_label(0.05, percent=True), tick_label(12.5, percent=False)
    ('5', '12.5')
    """
    return f"{100 * value:g}" if percent else f"{value:g}"


def scale_axes(
    axes: "Axes", xs: Sequence[float], ys: Sequence[float], *, percent: bool, is_epochs: bool = False
) -> None:
    """Limits and round ticks around the values; epochs are integers and fill the width."""
    is_small = size_of(axes)[0] < _SMALL
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


def write(axes: "Axes", at: tuple[float, float], text: str, font: Font = PLAIN, tip: str = "") -> None:
    """A text at a pixel (from the left, from the top); cut where it is long, with the whole text as its tool tip."""
    width, height = size_of(axes)
    artist = figure_of(axes).text(
        at[0] / width,
        1 - at[1] / height,
        cut(plain(text), font.longest),
        ha=font.anchor,
        fontsize=font.size,
        color=font.colour,
        fontstyle="italic" if font.is_italic else "normal",
    )
    annotate(artist, font.role, tip or text)


def draw_marks(axes: "Axes", points: Points, mark: Mark, colour: str, tips: Sequence[str]) -> None:
    """Marks with a rim in the colour of the page, each with its tool tip."""
    visible = [(x, y, tip) for (x, y), tip in zip(points, tips, strict=True) if math.isfinite(x) and math.isfinite(y)]
    if not visible:
        return
    (artist,) = axes.plot(
        [x for x, _, _ in visible],
        [y for _, y, _ in visible],
        linestyle="none",
        marker=mark.shape,
        markersize=2 * mark.radius * (0.88 if mark.shape in "Ds" else 1.0),
        color=colour,
        markeredgecolor=PAPER,
        markeredgewidth=mark.rim,
        alpha=mark.opacity,
    )
    annotate(artist, mark.role, *(tip for _, _, tip in visible))


def draw_line(axes: "Axes", points: Points, style: SeriesStyle, stroke: Stroke = THICK, tip: str = "") -> None:
    """A line through the points with round ends; a single point is a dot."""
    ys = [y for _, y in points]
    (artist,) = axes.plot(
        [x for x, _ in points],
        ys,
        color=style.colour,
        linestyle=style.line,
        linewidth=stroke.width,
        alpha=stroke.opacity,
        marker="o" if len(finite(ys)) == 1 else "",
        markersize=stroke.width,
        markeredgewidth=0,
        solid_capstyle="round" if stroke.is_round else "butt",
        dash_capstyle="round",
    )
    annotate(artist, stroke.role, tip)


def draw_series(axes: "Axes", series: Series) -> None:
    """A series: single seeds thin, whiskers, the line, its marks."""
    for points in series.seeds:
        draw_line(axes, points, series.style, THIN)
    for (x, y), deviation in zip(series.points, series.deviations, strict=False):
        if deviation and math.isfinite(y):
            draw_line(axes, [(x, y - deviation), (x, y + deviation)], SeriesStyle(series.style.colour), WHISKER)
    if finite([y for _, y in series.points]):
        draw_line(axes, series.points, series.style, tip=series.name)
    if series.tips:
        draw_marks(axes, series.points, Mark("mean", 3.4), series.style.colour, series.tips)


def name_ends(axes: "Axes", every: Sequence[Series]) -> None:
    """The name of each series at the end of its line, moved apart where lines end close together."""
    from matplotlib.lines import Line2D

    width, height = size_of(axes)
    figure, box = figure_of(axes), axes.get_position()
    edge = box.x1 * width
    ends = []
    for series in every:
        visible = [point for point in series.points if math.isfinite(point[1])]
        if visible:
            x, y = axes.transData.transform(visible[-1])
            ends.append((series, float(x), height - float(y)))
    top, bottom = height * (1 - box.y1), height * (1 - box.y0)
    levels = spread_labels([y for _, _, y in ends], _LINE_HEIGHT, top + 4, bottom + 12)
    for (series, x, y), level in zip(ends, levels, strict=True):
        xs = [across / width for across in (x + 6, edge + 14, edge + 20)]
        ys = [1 - down / height for down in (y, level, level)]
        leader = Line2D(xs, ys, color=series.style.colour, linewidth=1, alpha=0.45, transform=figure.transFigure)
        annotate(figure.add_artist(leader), "leader")
        font = Font("method", colour=series.style.colour, longest=_LONGEST_NAME)
        write(axes, (edge + 25, level + 4), series.name, font)
