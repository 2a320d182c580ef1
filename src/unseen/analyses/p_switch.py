"""Analysis `p-switch`: a score and spectral decay over the share of switched triplets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unseen.analyses.base import AnalysisInputs, AnalysisResult, Value
from unseen.analyses.correlation import correlation
from unseen.analyses.spectral.ablations import RHO_REGULARISATION, ablation_pairs, p_switch_of, without_switch
from unseen.analyses.spectral.trained_methods import (
    TrainedMethod,
    TrainedMethods,
    mean_and_deviation,
    read_trained_methods,
)
from unseen.core.config import hash_of
from unseen.core.errors import DataError
from unseen.core.registry import analysis
from unseen.figures.style import MARKS, SERIES, label, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class PSwitchSweep(NamedTuple):
    """Methods that differ in p_switch alone, by rising p_switch, and the one that never switches if there is one."""

    name: str
    methods: tuple[TrainedMethod, ...]
    baseline: TrainedMethod | None


@analysis("p-switch")
def p_switch(inputs: AnalysisInputs, /, *, score: str = "recall@1") -> AnalysisResult:
    """A score and spectral decay over the share of switched triplets.

    =====  ======================================================
    score  The score on unseen classes that methods are compared by.
    =====  ======================================================

    Raises:     DataError for a study in which no method has two values of p_switch, all else being equal
    Reference:  Roth et al., ICML 2020, arXiv:2002.08473, figure 8
    """
    study = read_trained_methods(inputs, score)
    sweeps = p_switch_sweeps(study)
    if not sweeps:
        raise DataError(
            "the study has no method with two values of p_switch above 0, all else being equal",
            hint="Use a study such as `p-switch` (unseen list studies).",
        )
    rows: list[list[Value]] = []
    remarks = []
    for sweep in sweeps:
        methods = [*([sweep.baseline] if sweep.baseline else []), *sweep.methods]
        shares = [p_switch_of(method.config) for method in methods]
        for method, share in zip(methods, shares, strict=True):
            numbers = (*mean_and_deviation(method.scores), *mean_and_deviation(method.rhos), len(method.seeds))
            rows.append([*method.benchmark, method.name, share, *numbers])
        for name, values in ((study.score, [own.scores for own in methods]), ("rho", [own.rhos for own in methods])):
            correlated = correlation(shares, [float(own.mean()) for own in values])
            remarks.append(f"{sweep.name}: p_switch and {name}: {correlated}")
    score_columns = (study.score, f"{study.score} deviation")
    return AnalysisResult(
        draw=lambda: _figure(study, sweeps),
        columns=("data", "split", "method", "p_switch", *score_columns, "rho", "rho deviation", "seeds"),
        rows=rows,
        remarks=remarks,
        printed_columns=("data", "split", "method", "p_switch", *score_columns, "rho", "seeds"),
    )


def p_switch_sweeps(study: TrainedMethods) -> list[PSwitchSweep]:
    """The sweeps of a study, in its order."""
    baselines = {id(pair.with_it): pair.without for pair in ablation_pairs(study, RHO_REGULARISATION)}
    groups: dict[str, list[TrainedMethod]] = {}
    for method in study.methods:
        config = without_switch(method.config)
        if config is not None:
            groups.setdefault(hash_of(config), []).append(method)
    sweeps = []
    for methods in groups.values():
        ordered = sorted(methods, key=lambda method: p_switch_of(method.config))
        if len({p_switch_of(method.config) for method in ordered}) > 1:
            baseline = baselines.get(id(ordered[0]))
            sweeps.append(PSwitchSweep(study.name_of(baseline or ordered[0]), tuple(ordered), baseline))
    return sweeps


def _figure(study: TrainedMethods, sweeps: Sequence[PSwitchSweep]) -> "Figure":
    figure, rows = panels(1, 2, width=8.6, height=3.7)
    for axes, attribute, title in (
        (rows[0][0], "scores", f"{label(study.score)} on unseen classes"),
        (rows[0][1], "rhos", "spectral decay ρ on training classes"),
    ):
        for number, sweep in enumerate(sweeps):
            _draw(axes, sweep, attribute, number)
        axes.grid(True, axis="y")
        axes.set(xlabel="p_switch", ylabel=title)
        axes.margins(y=0.15)
    rows[0][0].legend(loc="best")
    return figure


def _draw(axes: "Axes", sweep: PSwitchSweep, attribute: str, number: int) -> None:
    colour, mark = SERIES[number % len(SERIES)], MARKS[number % len(MARKS)]
    x = [p_switch_of(method.config) for method in sweep.methods]
    y, deviation = np.array([mean_and_deviation(getattr(method, attribute)) for method in sweep.methods]).T
    axes.fill_between(x, y - deviation, y + deviation, color=colour, alpha=0.15, linewidth=0)
    axes.plot(x, y, color=colour, marker=mark, markersize=5, label=label(sweep.name))
    if sweep.baseline is not None:
        level = getattr(sweep.baseline, attribute).mean()
        axes.axhline(level, color=colour, linestyle=(0, (5, 3)), linewidth=1.2, label="without regularisation")
