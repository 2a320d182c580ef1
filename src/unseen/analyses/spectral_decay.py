"""Spectral decay against a score, for all methods of a study, with and without regularisation (R, fig. 10)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unseen.analyses.base import Analysis, mean_and_deviation
from unseen.analyses.correlation import Correlation, correlation
from unseen.analyses.study_methods import REGULARISED, Method, Pair, Studied, p_switch_of, pairs_of
from unseen.core.errors import DataError
from unseen.core.text import listed
from unseen.figures.style import BLUE, FAINT, GREY, INK, ORANGE, label, panels, spread_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEWEST = 3


def spectral_decay(studied: Studied) -> Analysis:
    """Each method's spectral decay on training classes beside its score on unseen ones, and how they correlate.

    Raises:     DataError for fewer than three methods on every split: two points always lie on a line
    """
    if max(len(_at(studied, place)) for place in studied.places) < _FEWEST:
        raise DataError(
            f"the study has fewer than {_FEWEST} trained methods on a split",
            got=len(studied.methods),
            hint="Use a study such as `regularisation` (unseen list studies).",
        )
    pairs = pairs_of(studied, REGULARISED)
    rows = []
    for method in studied.methods:
        rho, rho_deviation = mean_and_deviation(method.rhos)
        score, score_deviation = mean_and_deviation(method.scores)
        labels = [method.data, method.split, method.name, p_switch_of(method.config), method.width]
        rows.append([*labels, rho, rho_deviation, score, score_deviation, len(method.cells)])
    named = (studied.score, f"{studied.score} deviation")
    return Analysis(
        name="spectral-decay",
        draw=lambda: _figure(studied, pairs),
        columns=("data", "split", "method", "p_switch", "width", "rho", "rho deviation", *named, "seeds"),
        rows=rows,
        shown=("data", "split", "method", "p_switch", "rho", studied.score, "seeds"),
        remarks=_remarks(studied, pairs),
    )


def _at(studied: Studied, place: tuple[str, str]) -> list[Method]:
    return [method for method in studied.methods if method.place == place]


def _correlated(methods: Sequence[Method]) -> Correlation:
    return correlation([method.rhos.mean() for method in methods], [method.scores.mean() for method in methods])


def _remarks(studied: Studied, pairs: Sequence[Pair]) -> list[str]:
    remarks = []
    for place in studied.places:
        methods = _at(studied, place)
        plain = [method for method in methods if p_switch_of(method.config) == 0]
        where = " / ".join(place)
        remarks.append(f"{where}: rho on training classes and {studied.score}: {_correlated(methods)}")
        if len(plain) < len(methods):
            remarks.append(f"{where}: the same without regularised methods: {_correlated(plain)}")
        widths = sorted({method.width for method in methods})
        if len(widths) > 1:
            remarks.append(f"{where}: embeddings have {listed(map(str, widths))} dimensions; rho grows with them")
    if pairs:
        better = sum(pair.difference(lambda cell: cell.score).mean() > 0 for pair in pairs if _has_seeds(pair))
        lower = sum(pair.difference(lambda cell: cell.spectra.rho).mean() < 0 for pair in pairs if _has_seeds(pair))
        remarks.append(
            f"of {len(pairs)} regularised methods {lower} have a lower rho and {better} a higher {studied.score} "
            "than without"
        )
    return remarks


def _has_seeds(pair: Pair) -> bool:
    return len(pair.difference(lambda cell: cell.score)) > 0


def _figure(studied: Studied, pairs: Sequence[Pair]) -> "Figure":
    count = len(studied.places)
    tallest = max(len(_at(studied, place)) for place in studied.places)
    figure, rows = panels(1, count, width=6.2 * count, height=max(4.2, 0.27 * tallest + 1.2))
    for axes, place in zip(rows[0], studied.places, strict=True):
        methods = _at(studied, place)
        _draw(axes, methods, [pair for pair in pairs if pair.treated.place == place])
        axes.set_title(f"{label(' / '.join(place), 50)}\n{_correlated(methods)}", fontsize=10, linespacing=1.5)
        axes.set(xlabel="spectral decay ρ on training classes", ylabel=f"{label(studied.score)} on unseen classes")
    return figure


def _draw(axes: "Axes", methods: Sequence[Method], pairs: Sequence[Pair]) -> None:
    for is_regularised, colour, mark in ((False, BLUE, "o"), (True, ORANGE, "D")):
        own = [method for method in methods if (p_switch_of(method.config) > 0) == is_regularised]
        if own:
            (x, x_error), (y, y_error) = (
                np.array([mean_and_deviation(values) for values in side]).T
                for side in ([method.rhos for method in own], [method.scores for method in own])
            )
            axes.errorbar(x, y, xerr=x_error, yerr=y_error, fmt="none", ecolor=GREY, elinewidth=0.8, zorder=2)
            name = "with regularisation" if is_regularised else "without"
            axes.scatter(x, y, s=46, c=colour, marker=mark, edgecolors="white", linewidths=0.6, zorder=3, label=name)
    for pair in pairs:
        start, end = ((each.rhos.mean(), each.scores.mean()) for each in (pair.without, pair.treated))
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": ORANGE, "lw": 1.0}, zorder=2)
    axes.grid(True)
    axes.margins(0.08)
    if any(p_switch_of(method.config) > 0 for method in methods):
        axes.legend(loc="best")
    _name(axes, methods, {id(pair.treated) for pair in pairs})


def _name(axes: "Axes", methods: Sequence[Method], treated: set[int]) -> None:
    """Names in a column at the right, a thin line to each point; an arrow's end needs no name of its own."""
    from matplotlib.transforms import blended_transform_factory

    named = [method for method in methods if id(method) not in treated]
    low, high = axes.get_ylim()
    heights = [(method.scores.mean() - low) / (high - low) for method in named]
    places = spread_labels(heights, min(0.07, 1 / max(len(named), 1)), 0.02, 0.98)
    across = blended_transform_factory(axes.transAxes, axes.transAxes)
    for method, height in zip(named, places, strict=True):
        axes.annotate(
            label(method.name),
            (method.rhos.mean(), method.scores.mean()),
            (1.03, height),
            xycoords="data",
            textcoords=across,
            va="center",
            fontsize=9,
            color=INK,
            arrowprops={"arrowstyle": "-", "color": FAINT, "lw": 0.7},
            zorder=1,
        )
