"""The look of every figure, drawn with matplotlib without touching its global state: colours, marks, ticks."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unseen.core.text import cut, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

# The series colours follow Okabe and Ito: readers with red-green colour blindness can distinguish them.
# These are the light values of the report's style sheet; `figures.svg` replaces them by its variables.
INK, SOFT, GREY, FAINT, WASH, PAPER = "#1d2126", "#5c646e", "#8b929b", "#e6e3dd", "#f4f2ee", "#fdfcfa"
BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY = "#0b6fb3", "#d05a00", "#008f68", "#b8548b", "#b87800", "#3a95cc"
RED, BETTER, WORSE = "#a00000", "#00805e", "#c0392b"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY)
MARKS = ("o", "D", "s", "^", "v", "P", "X")
DASHES: tuple[tuple[float, float] | None, ...] = (None, (3.0, 2.0), (0.6, 2.0))  # in line widths

_LOOK: "dict[RcKeyType, Any]" = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "figure.dpi": 100,
    "path.simplify": False,
    "svg.fonttype": "none",
}
_DOTS_PER_INCH = 200


@dataclass(frozen=True)
class SeriesStyle:
    """The colour of a series and its dash pattern (None is solid)."""

    colour: str
    dash: tuple[float, float] | None = None


def series_style(position: int) -> SeriesStyle:
    """The style of the n-th series: a colour of its own, then the colours again with another dash pattern."""
    return SeriesStyle(SERIES[position % len(SERIES)], DASHES[position // len(SERIES) % len(DASHES)])


@contextmanager
def our_look() -> Iterator[None]:
    """Figures that are made and saved inside have our look, whatever settings a user has; also a decorator."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        yield


@our_look()
def render_png(draw: "Callable[[], Figure]") -> bytes:
    """A figure as a PNG file that names neither time nor program.

    Equal data give equal bytes with one version of matplotlib.
    """
    buffer = io.BytesIO()
    draw().savefig(buffer, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def panels(
    rows: int, columns: int, *, width: float, height: float, column_widths: Sequence[float] | None = None
) -> "tuple[Figure, list[list[Axes]]]":
    """An empty figure (size in inches) and its axes row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, gridspec_kw={"width_ratios": column_widths})
    return figure, axes.tolist()


def label(text: str, longest: int = 28) -> str:
    """Foreign text made fit for a figure: on one line and not too long."""
    return cut(plain(text), longest)


def ticks(low: float, high: float, count: int = 5, *, integer: bool = False) -> list[float]:
    """Round numbers (steps of 1, 2 or 5) that enclose the range.

    >>> ticks(0.31, 0.53)
    [0.3, 0.35, 0.4, 0.45, 0.5, 0.55]
    """
    from matplotlib.ticker import MaxNLocator

    if not high > low:
        span = abs(high) / 10 or 1.0
        low, high = low - span / 2, high + span / 2
    locations = MaxNLocator(count, steps=[1, 2, 5, 10], integer=integer, min_n_ticks=1).tick_values(low, high)
    return [float(f"{location:.12g}") for location in locations]


def spread_labels(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Label positions moved so that no two are closer than `gap`: one sweep up, one sweep down.

    >>> spread_labels([10, 11, 40], 10, 0, 100)
    [10, 20, 40]
    """
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    moved = list(positions)
    floor = low
    for index in order:
        moved[index] = max(moved[index], floor)
        floor = moved[index] + gap
    ceiling = high
    for index in reversed(order):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - gap
    return moved
