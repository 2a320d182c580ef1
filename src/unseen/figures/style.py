"""Pictures as PNG files: one look for all of them, drawn without any global state of the plotting library."""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from unseen.core.text import cut, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people who confuse red and green tell apart too.
INK, GREY, FAINT = "#222222", "#7a7a7a", "#d9d9d9"
BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#a00000",
    "#e69f00",
)
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, RED)
MARKS = ("o", "D", "s", "^", "v", "P", "X")

_LOOK: dict[str, Any] = {
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
}
_DOTS_PER_INCH = 200


def drawn(draw: "Callable[[], Figure]", description: str = "") -> bytes:
    """What `draw` draws, in our look, as a PNG file that says neither when nor by what it was made.

    The file holds the description as its text.

    Equal data give equal bytes with one version of the plotting library.
    """
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context(_LOOK):
        held = {"Software": None} | ({"Description": description} if description else {})
        draw().savefig(buffer, format="png", dpi=_DOTS_PER_INCH, metadata=held)
    return buffer.getvalue()


def panels(
    rows: int, columns: int, *, width: float, height: float, column_widths: Sequence[float] | None = None
) -> "tuple[Figure, list[list[Axes]]]":
    """An empty picture of some inches, and its axes row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, gridspec_kw={"width_ratios": column_widths})
    return figure, axes.tolist()


def label(text: str, longest: int = 28) -> str:
    """Somebody's word as it may stand in a picture: on one line and not endless."""
    return cut(plain(text), longest)
