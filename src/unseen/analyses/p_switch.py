"""A score and spectral decay over the share of switched triplets, p_switch (R, fig. 8)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unseen.analyses.base import Analysis, mean_and_deviation
from unseen.analyses.correlation import correlation
from unseen.analyses.study_methods import REGULARISED, Method, Studied, p_switch_of, pairs_of, without_switch
from unseen.core.config import hash_of
from unseen.core.errors import DataError
from unseen.figures.style import MARKS, SERIES, label, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Sweep:
    """Methods that differ in p_switch alone, by rising p_switch, and the one that never switches if there is one."""

    name: str
    methods: tuple[Method, ...]
    without: Method | None


def p_switch_sweep(studied: Studied) -> Analysis:
    """How a score and spectral decay change with the share of switched triplets.

    Raises:     DataError for a study in which no method has two values of p_switch, all else being equal
    """
    sweeps = sweeps_of(studied)
    if not sweeps:
        raise DataError(
            "the study has no method with two values of p_switch above 0, all else being equal",
            hint="Use a study such as `p-switch` (unseen list studies).",
        )
    rows = []
    for sweep in sweeps:
        for method in (*([sweep.without] if sweep.without else []), *sweep.methods):
            score, rho = mean_and_deviation(method.scores), mean_and_deviation(method.rhos)
            labels = [*method.place, method.name, p_switch_of(method.config)]
            rows.append([*labels, *score, *rho, len(method.cells)])
    remarks = [
        f"{sweep.name}: p_switch and {words}: "
        f"{correlation([p_switch_of(each.config) for each in all_of], [of(each) for each in all_of])}"
        for sweep in sweeps
        for all_of in [[*([sweep.without] if sweep.without else []), *sweep.methods]]
        for words, of in ((studied.score, _score), ("rho", _rho))
    ]
    named = (studied.score, f"{studied.score} deviation")
    return Analysis(
        name="p-switch",
        draw=lambda: _figure(studied, sweeps),
        columns=("data", "split", "method", "p_switch", *named, "rho", "rho deviation", "seeds"),
        rows=rows,
        shown=("data", "split", "method", "p_switch", *named, "rho", "seeds"),
        remarks=remarks,
    )


def _score(method: Method) -> float:
    return float(method.scores.mean())


def _rho(method: Method) -> float:
    return float(method.rhos.mean())


def sweeps_of(studied: Studied) -> list[Sweep]:
    """The sweeps of a study, in its order."""
    plain = {id(pair.treated): pair.without for pair in pairs_of(studied, REGULARISED)}
    groups: dict[str, list[Method]] = {}
    for method in studied.methods:
        config = without_switch(method.config)
        if config is not None:
            groups.setdefault(hash_of(config), []).append(method)
    sweeps = []
    for methods in groups.values():
        ordered = sorted(methods, key=lambda method: p_switch_of(method.config))
        if len({p_switch_of(method.config) for method in ordered}) > 1:
            without = plain.get(id(ordered[0]))
            sweeps.append(Sweep(studied.name_of(without or ordered[0]), tuple(ordered), without))
    return sweeps


def _figure(studied: Studied, sweeps: Sequence[Sweep]) -> "Figure":
    figure, rows = panels(1, 2, width=8.6, height=3.7)
    for axes, kind, words in (
        (rows[0][0], "scores", f"{label(studied.score)} on unseen classes"),
        (rows[0][1], "rhos", "spectral decay ρ on training classes"),
    ):
        for number, sweep in enumerate(sweeps):
            _draw(axes, sweep, kind, SERIES[number % len(SERIES)], MARKS[number % len(MARKS)])
        axes.grid(True, axis="y")
        axes.set(xlabel="p_switch", ylabel=words)
        axes.margins(y=0.15)
    rows[0][0].legend(loc="best")
    return figure


def _draw(axes: "Axes", sweep: Sweep, kind: str, colour: str, mark: str) -> None:
    x = [p_switch_of(method.config) for method in sweep.methods]
    y, deviation = np.array([mean_and_deviation(getattr(method, kind)) for method in sweep.methods]).T
    axes.fill_between(x, y - deviation, y + deviation, color=colour, alpha=0.15, linewidth=0)
    axes.plot(x, y, color=colour, marker=mark, markersize=5, label=label(sweep.name))
    if sweep.without is not None:
        level = getattr(sweep.without, kind).mean()
        axes.axhline(level, color=colour, linestyle=(0, (5, 3)), linewidth=1.2, label="without regularisation")
