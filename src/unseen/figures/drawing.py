"""Drawings as data: a few primitives that the template writes as SVG, with every text escaped there.

Colours are class names of the style sheet, so that one drawing serves the light and the dark page.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

SHAPES = ("circle", "diamond", "square", "triangle")
COLOURS = 6  # series colours of the style sheet; after them come the dash patterns
DASHES = 3


@dataclass(frozen=True)
class Path:
    """A line or a shape; `title` is what a pointer resting on it shows."""

    d: str
    css: str
    title: str = ""


@dataclass(frozen=True)
class Label:
    """A text at a point; `anchor` is start, middle or end."""

    x: float
    y: float
    text: str
    css: str = ""
    anchor: str = "start"
    title: str = ""


@dataclass(frozen=True)
class Picture:
    """A thumbnail, with a frame of a series colour where it cannot be tinted."""

    x: float
    y: float
    width: float
    height: float
    uri: str
    title: str = ""
    frame: str = ""


@dataclass(frozen=True)
class Drawing:
    """An SVG picture and the words for those who cannot see it."""

    width: float
    height: float
    words: str
    paths: list[Path] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


def short(value: float) -> str:
    """A coordinate with at most one decimal, so that equal drawings have equal bytes and few of them."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def line(points: Sequence[tuple[float, float]]) -> str:
    """The path through the points; a point that is not finite breaks it."""
    parts, is_down = [], False
    for x, y in points:
        if not (math.isfinite(x) and math.isfinite(y)):
            is_down = False
            continue
        parts.append(f"{'L' if is_down else 'M'}{short(x)} {short(y)}")
        is_down = True
    # A lone point would be invisible: a line of no length has round ends.
    return "".join(parts) + ("h0" if len(parts) == 1 else "")


def mark(x: float, y: float, radius: float, shape: str = "circle") -> str:
    """The path of a mark around a point."""
    r = radius
    if shape == "circle":
        return f"M{short(x - r)} {short(y)}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z"
    corners = {
        "diamond": [(0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)],
        "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        "triangle": [(0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
    }[shape]
    return line([(x + r * across, y + r * down) for across, down in corners]) + "z"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers (steps of 1, 2 or 5) that enclose the range.

    >>> ticks(0.31, 0.53)
    [0.3, 0.35, 0.4, 0.45, 0.5, 0.55]
    """
    span = high - low
    if not span > 0:
        span = abs(high) / 10 or 1.0
        low, high = low - span / 2, high + span / 2
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{position * step:.12g}") for position in range(first, last + 1)]


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places moved as little as a simple sweep can so that none is nearer than `gap` to the next.

    >>> spread([10, 11, 40], 10, 0, 100)
    [10, 20, 40]
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = list(places)
    floor = low
    for index in order:
        moved[index] = max(moved[index], floor)
        floor = moved[index] + gap
    ceiling = high
    for index in reversed(order):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - gap
    return moved


def series(position: int) -> str:
    """The style-sheet classes of a series: a colour, and a dash pattern once the colours are used up."""
    return f"c{position % COLOURS} d{position // COLOURS % DASHES}"
