"""Spectra of methods with and without a treatment, of all training images and class by class (R, figs. 11 and 13)."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.analyses.base import Analysis
from unseen.analyses.correlation import correlation
from unseen.analyses.study_methods import Method, Pair, Studied, Trained, Treatment, some_pairs_of
from unseen.figures.style import BLUE, RED, label, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 4
_SMALLEST = 1e-4  # of a sum of 1; what is smaller is not drawn


def paired_spectra(studied: Studied, treatment: Treatment, name: str) -> Analysis:
    """Every pair of methods that differ by a treatment alone: spectra, spectral decay and score of both.

    Raises:     DataError for a study without such a pair
    """
    pairs = some_pairs_of(studied, treatment)
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


def _score(cell: Trained) -> float:
    return cell.score


def _rho(cell: Trained) -> float:
    return cell.spectra.rho


def _first_of_class(cell: Trained) -> float:
    return float(cell.spectra.by_class[0])


def _means(pair: Pair, of: Callable[[Trained], float]) -> tuple[float, float]:
    """The mean over seeds without and with the treatment."""
    without, treated = (float(np.mean([of(cell) for cell in each.cells])) for each in (pair.without, pair.treated))
    return without, treated


def _remarks(studied: Studied, pairs: Sequence[Pair], treatment: Treatment) -> list[str]:
    remarks = []
    compared = {
        studied.score: _score,
        "rho": _rho,
        "share of the first singular value of a class": _first_of_class,
    }
    for pair in pairs:
        parts = ["{} {:.4g} to {:.4g}".format(what, *_means(pair, of)) for what, of in compared.items()]
        higher = int((pair.difference(_score) > 0).sum())
        seeds = f"{studied.score} is higher on {higher} of {len(pair.difference(_score))} seeds"
        remarks.append(f"{studied.name_of(pair.treated)}: {'; '.join(parts)}; {seeds}")
    changes = [[after - before for before, after in (_means(pair, of) for pair in pairs)] for of in (_rho, _score)]
    remarks.append(f"changes of rho and of {studied.score} by {treatment.name}: {correlation(*changes)}")
    return remarks


def _figure(studied: Studied, pairs: Sequence[Pair], treatment: Treatment) -> "Figure":
    across = min(len(pairs), _COLUMNS)
    blocks = -(-len(pairs) // _COLUMNS)
    figure, rows = panels(2 * blocks, across, width=max(3.7 * across, 5.0), height=4.9 * blocks)
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
        scores, rhos = _means(pair, _score), _means(pair, _rho)
        places[0].set_title(
            f"{label(studied.name_of(pair.without), 34)}\n"
            f"{label(studied.score)} {scores[0]:.3f} → {scores[1]:.3f},  ρ {rhos[0]:.2f} → {rhos[1]:.2f}",
            fontsize=9,
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
    place.set_ylim(bottom=_SMALLEST)
    place.yaxis.set_major_formatter(lambda value, _: f"{value:g}")  # powers of ten would need formulas
    place.grid(True, axis="y")


def _line(place: "Axes", values: np.ndarray, **look: Any) -> None:
    place.plot(np.arange(1, len(values) + 1), np.where(values >= _SMALLEST, values, np.nan), **look)
