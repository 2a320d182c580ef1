"""Analysis `spectral-decay`: spectral decay on training classes against a score on unseen classes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.analyses.base import AnalysisInputs, AnalysisResult, Value
from unseen.analyses.correlation import Correlation, correlation
from unseen.analyses.spectral.ablations import RHO_REGULARISATION, AblationPair, ablation_pairs, p_switch_of
from unseen.analyses.spectral.trained_methods import (
    TrainedMethod,
    TrainedMethods,
    mean_and_deviation,
    read_trained_methods,
)
from unseen.core.errors import DataError
from unseen.core.registry import analysis
from unseen.core.text import listed
from unseen.figures.style import BLUE, FAINT, GREY, INK, ORANGE, label, panels, spread_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MIN_METHODS = 3  # two points always lie on a line


@analysis("spectral-decay")
def spectral_decay(inputs: AnalysisInputs, /, *, score: str = "recall@1") -> AnalysisResult:
    """Spectral decay against a score of all methods, with and without regularisation.

    =====  ======================================================
    score  The score on unseen classes that methods are compared by.
    =====  ======================================================

    Raises:     DataError for fewer than three methods on every split
    Reference:  Roth et al., ICML 2020, arXiv:2002.08473, figure 10
    """
    study = read_trained_methods(inputs, score)
    if max(len(study.on(benchmark)) for benchmark in study.benchmarks) < _MIN_METHODS:
        raise DataError(
            f"the study has fewer than {_MIN_METHODS} trained methods on a split",
            got=len(study.methods),
            hint="Use a study such as `regularisation` (unseen list studies).",
        )
    pairs = ablation_pairs(study, RHO_REGULARISATION)
    rows: list[list[Value]] = [
        [
            *(*method.benchmark, method.name, p_switch_of(method.config), method.width),
            *(*mean_and_deviation(method.rhos), *mean_and_deviation(method.scores), len(method.seeds)),
        ]
        for method in study.methods
    ]
    score_columns = (study.score, f"{study.score} deviation")
    return AnalysisResult(
        draw=lambda: _figure(study, pairs),
        columns=("data", "split", "method", "p_switch", "width", "rho", "rho deviation", *score_columns, "seeds"),
        rows=rows,
        remarks=_remarks(study, pairs),
        printed_columns=("data", "split", "method", "p_switch", "rho", study.score, "seeds"),
    )


def _correlated(methods: Sequence[TrainedMethod]) -> Correlation:
    return correlation([method.rhos.mean() for method in methods], [method.scores.mean() for method in methods])


def _remarks(study: TrainedMethods, pairs: Sequence[AblationPair]) -> list[str]:
    remarks = []
    for benchmark in study.benchmarks:
        methods = study.on(benchmark)
        plain = [method for method in methods if p_switch_of(method.config) == 0]
        where = " / ".join(benchmark)
        remarks.append(f"{where}: rho on training classes and {study.score}: {_correlated(methods)}")
        if len(plain) < len(methods):
            remarks.append(f"{where}: the same without regularised methods: {_correlated(plain)}")
        widths = sorted({method.width for method in methods})
        if len(widths) > 1:
            remarks.append(f"{where}: embeddings have {listed(map(str, widths))} dimensions; rho grows with them")
    if pairs:
        # Pairs without a common seed have no difference and count as neither.
        scores = [pair.differences(lambda method: method.scores) for pair in pairs]
        rhos = [pair.differences(lambda method: method.rhos) for pair in pairs]
        better = sum(own.mean() > 0 for own in scores if len(own))
        lower = sum(own.mean() < 0 for own in rhos if len(own))
        remarks.append(
            f"of {len(pairs)} regularised methods {lower} have a lower rho and {better} a higher {study.score} "
            "than without"
        )
    return remarks


def _figure(study: TrainedMethods, pairs: Sequence[AblationPair]) -> "Figure":
    count = len(study.benchmarks)
    most_methods = max(len(study.on(benchmark)) for benchmark in study.benchmarks)
    figure, rows = panels(1, count, width=6.2 * count, height=max(4.2, 0.27 * most_methods + 1.2))
    for axes, benchmark in zip(rows[0], study.benchmarks, strict=True):
        methods = study.on(benchmark)
        _draw(axes, methods, [pair for pair in pairs if pair.with_it.benchmark == benchmark])
        axes.set_title(f"{label(' / '.join(benchmark), 50)}\n{_correlated(methods)}", fontsize=10, linespacing=1.5)
        axes.set(xlabel="spectral decay ρ on training classes", ylabel=f"{label(study.score)} on unseen classes")
    return figure


def _draw(axes: "Axes", methods: Sequence[TrainedMethod], pairs: Sequence[AblationPair]) -> None:
    for is_regularised, colour, mark in ((False, BLUE, "o"), (True, ORANGE, "D")):
        own = [method for method in methods if (p_switch_of(method.config) > 0) == is_regularised]
        if own:
            x, x_error = np.array([mean_and_deviation(method.rhos) for method in own]).T
            y, y_error = np.array([mean_and_deviation(method.scores) for method in own]).T
            axes.errorbar(x, y, xerr=x_error, yerr=y_error, fmt="none", ecolor=GREY, elinewidth=0.8, zorder=2)
            name = "with regularisation" if is_regularised else "without"
            axes.scatter(x, y, s=46, c=colour, marker=mark, edgecolors="white", linewidths=0.6, zorder=3, label=name)
    for pair in pairs:
        start, end = ((method.rhos.mean(), method.scores.mean()) for method in (pair.without, pair.with_it))
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": ORANGE, "lw": 1.0}, zorder=2)
    axes.grid(True)
    axes.margins(0.08)
    if any(p_switch_of(method.config) > 0 for method in methods):
        axes.legend(loc="best")
    # An arrow's end needs no name of its own.
    ends = {id(pair.with_it) for pair in pairs}
    _name(axes, [method for method in methods if id(method) not in ends])


def _name(axes: "Axes", methods: Sequence[TrainedMethod]) -> None:
    """Names in a column at the right, a thin line to each point."""
    low, high = axes.get_ylim()
    heights = [(method.scores.mean() - low) / (high - low) for method in methods]
    heights = spread_labels(heights, min(0.07, 1 / max(len(methods), 1)), 0.02, 0.98)
    for method, height in zip(methods, heights, strict=True):
        point, arrow = (method.rhos.mean(), method.scores.mean()), {"arrowstyle": "-", "color": FAINT, "lw": 0.7}
        look: dict[str, Any] = {"va": "center", "fontsize": 9, "color": INK, "arrowprops": arrow, "zorder": 1}
        axes.annotate(label(method.name), point, (1.03, height), textcoords="axes fraction", **look)
