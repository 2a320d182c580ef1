"""Spectra of methods with and without a treatment, of all training images and class by class (R, figs. 11 and 13)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unseen.reports.analysis import Analysis, correlation
from unseen.reports.plotting import BLUE, RED, label, panels
from unseen.reports.studied import Method, Pair, Studied, Trained, Treatment, needed, pairs_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 4
_SMALLEST = 1e-4  # of a sum of 1; what is smaller is drawn here


def paired_spectra(studied: Studied, treatment: Treatment, name: str) -> Analysis:
    """Every pair of methods that differ by a treatment alone: spectra, spectral decay and score of both.

    Raises:     DataError for a study without such a pair
    """
    pairs = pairs_of(studied, treatment)
    needed(pairs, treatment)
    rows = []
    for pair in pairs:
        for method in (pair.without, pair.treated):
            for kind, values in (("all", _mean(method, "values")), ("class", _mean(method, "by_class"))):
                shares = [[rank, float(value)] for rank, value in enumerate(values, start=1)]
                rows += [[*method.place, method.name, method is pair.treated, kind, *share] for share in shares]
    return Analysis(
        name=name,
        draw=lambda: _figure(studied, pairs, treatment),
        columns=("data", "split", "method", treatment.name, "spectrum of", "rank", "share"),
        rows=rows,
        shown=(),
        remarks=_remarks(studied, pairs, treatment),
    )


def _mean(method: Method, kind: str) -> np.ndarray:
    """The mean spectrum over seeds: "values" or "by_class"."""
    return np.mean([getattr(cell.spectra, kind) for cell in method.cells], axis=0)


def score_of(cell: Trained) -> float:
    """The score of a cell."""
    return cell.score


def rho_of(cell: Trained) -> float:
    """The spectral decay of a cell."""
    return cell.spectra.rho


def _first_of_class(cell: Trained) -> float:
    return float(cell.spectra.by_class[0])


def _remarks(studied: Studied, pairs: Sequence[Pair], treatment: Treatment) -> list[str]:
    remarks = []
    for pair in pairs:
        parts = []
        for what, of in (
            (studied.score, score_of),
            ("rho", rho_of),
            ("share of the first singular value of a class", _first_of_class),
        ):
            before, after = (np.mean([of(cell) for cell in each.cells]) for each in (pair.without, pair.treated))
            parts.append(f"{what} {before:.4g} to {after:.4g}")
        seeds = len(pair.difference(score_of))
        remarks.append(f"{studied.name_of(pair.treated)}: {'; '.join(parts)} ({seeds} paired seeds)")
    changes = [
        [float(np.mean([of(cell) for cell in pair.treated.cells]) - np.mean([of(cell) for cell in pair.without.cells]))]
        for pair in pairs
        for of in (rho_of, score_of)
    ]
    found = correlation([change[0] for change in changes[::2]], [change[0] for change in changes[1::2]])
    remarks.append(f"changes of rho and of {studied.score} by {treatment.name}: {found}")
    return remarks


def _figure(studied: Studied, pairs: Sequence[Pair], treatment: Treatment) -> "Figure":
    across = min(len(pairs), _COLUMNS)
    blocks = -(-len(pairs) // _COLUMNS)
    figure, rows = panels(2 * blocks, across, width=max(3.2 * across, 5.0), height=4.9 * blocks)
    for number in range(blocks * across):
        block, column = divmod(number, across)
        places = rows[2 * block][column], rows[2 * block + 1][column]
        if number >= len(pairs):
            for place in places:
                place.set_axis_off()
            continue
        pair = pairs[number]
        for place, kind in zip(places, ("values", "by_class"), strict=True):
            _draw(place, pair, kind, treatment)
        before, after = ((each.scores.mean(), each.rhos.mean()) for each in (pair.without, pair.treated))
        places[0].set_title(
            f"{label(studied.name_of(pair.without), 34)}\n"
            f"{label(studied.score)} {before[0]:.3f} → {after[0]:.3f},  ρ {before[1]:.2f} → {after[1]:.2f}",
            fontsize=9.5,
            linespacing=1.5,
        )
        places[1].set_xlabel("rank")
        if column == 0:
            places[0].set_ylabel("all training images")
            places[1].set_ylabel("mean over classes")
    rows[0][0].legend(loc="best")
    figure.supylabel("singular value over their sum", fontsize=10)
    return figure


def _draw(place: "Axes", pair: Pair, kind: str, treatment: Treatment) -> None:
    for method, colour, name in ((pair.without, BLUE, "without"), (pair.treated, RED, f"with {treatment.name}")):
        for cell in method.cells if len(method.cells) > 1 else ():
            _line(place, getattr(cell.spectra, kind), color=colour, linewidth=0.6, alpha=0.4)
        _line(place, _mean(method, kind), color=colour, label=name)
    place.set_yscale("log")
    place.grid(True, axis="y")


def _line(place: "Axes", values: np.ndarray, **look: object) -> None:
    place.plot(np.arange(1, len(values) + 1), np.maximum(values, _SMALLEST), **look)
