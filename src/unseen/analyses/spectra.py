"""Analyses `spectra` and `mixup`: singular values of methods with and without one component."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.analyses.base import AnalysisInputs, AnalysisResult, Value
from unseen.analyses.correlation import correlation
from unseen.analyses.spectral.ablations import (
    MIXUP,
    RHO_REGULARISATION,
    Ablation,
    AblationPair,
    SeedValues,
    ablation_pairs,
)
from unseen.analyses.spectral.trained_methods import TrainedMethod, TrainedMethods, read_trained_methods
from unseen.core.errors import DataError
from unseen.core.registry import analysis
from unseen.figures.style import BLUE, RED, label, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS_PER_ROW = 4
_SMALLEST = 1e-4  # of a sum of 1; smaller values are not drawn


@analysis("spectra")
def spectra(inputs: AnalysisInputs, /, *, score: str = "recall@1") -> AnalysisResult:
    """Singular values with and without rho-regularisation, of all images and per class.

    =====  ======================================================
    score  The score on unseen classes that methods are compared by.
    =====  ======================================================

    Reference:  Roth et al., ICML 2020, arXiv:2002.08473, figure 11
    """
    return _paired_spectra(read_trained_methods(inputs, score), RHO_REGULARISATION)


@analysis("mixup")
def mixup(inputs: AnalysisInputs, /, *, score: str = "recall@1") -> AnalysisResult:
    """Singular values, spectral decay and a score with and without manifold mixup.

    =====  ======================================================
    score  The score on unseen classes that methods are compared by.
    =====  ======================================================

    Reference:  Roth et al., ICML 2020, arXiv:2002.08473, figure 13
    """
    return _paired_spectra(read_trained_methods(inputs, score), MIXUP)


def _paired_spectra(study: TrainedMethods, ablation: Ablation) -> AnalysisResult:
    pairs = ablation_pairs(study, ablation)
    if not pairs:
        raise DataError(
            f"the study has no method both with and without {ablation.name}, all else being equal",
            hint=f"Use a study such as `{ablation.study}` (unseen list studies).",
        )
    rows: list[list[Value]] = [
        [*method.benchmark, method.name, method is pair.with_it, kind, rank, float(share)]
        for pair in pairs
        for method in (pair.without, pair.with_it)
        for kind, attribute in (("all", "values"), ("class", "by_class"))
        for rank, share in enumerate(_mean_spectrum(method, attribute), start=1)
    ]
    return AnalysisResult(
        draw=lambda: _figure(study, pairs, ablation),
        columns=("data", "split", "method", ablation.name, "spectrum of", "rank", "share"),
        rows=rows,
        remarks=_remarks(study, pairs, ablation),
    )


def _mean_spectrum(method: TrainedMethod, attribute: str) -> np.ndarray:
    """The mean over seeds of "values" or "by_class"."""
    return np.mean([getattr(spectra, attribute) for spectra in method.spectra], axis=0)


def _remarks(study: TrainedMethods, pairs: Sequence[AblationPair], ablation: Ablation) -> list[str]:
    remarks = []
    values: dict[str, SeedValues] = {
        study.score: lambda method: method.scores,
        "rho": lambda method: method.rhos,
        "share of the first singular value of a class": lambda method: np.array(
            [spectra.by_class[0] for spectra in method.spectra]
        ),
    }
    for pair in pairs:
        parts = ["{} {:.4g} to {:.4g}".format(name, *pair.means(value)) for name, value in values.items()]
        differences = pair.differences(values[study.score])
        seeds = f"{study.score} is higher on {int((differences > 0).sum())} of {len(differences)} seeds"
        remarks.append(f"{study.name_of(pair.with_it)}: {'; '.join(parts)}; {seeds}")
    rho_changes, score_changes = (
        [after - before for before, after in (pair.means(values[name]) for pair in pairs)]
        for name in ("rho", study.score)
    )
    correlated = correlation(rho_changes, score_changes)
    return [*remarks, f"changes of rho and of {study.score} by {ablation.name}: {correlated}"]


def _figure(study: TrainedMethods, pairs: Sequence[AblationPair], ablation: Ablation) -> "Figure":
    columns = min(len(pairs), _PANELS_PER_ROW)
    blocks = -(-len(pairs) // _PANELS_PER_ROW)
    figure, rows = panels(2 * blocks, columns, width=max(3.7 * columns, 5.0), height=4.9 * blocks)
    for number in range(blocks * columns):
        block, column = divmod(number, columns)
        upper, lower = rows[2 * block][column], rows[2 * block + 1][column]
        if number >= len(pairs):
            upper.set_axis_off()
            lower.set_axis_off()
            continue
        pair = pairs[number]
        _draw(upper, pair, "values", ablation)
        _draw(lower, pair, "by_class", ablation)
        scores, rhos = pair.means(lambda method: method.scores), pair.means(lambda method: method.rhos)
        upper.set_title(
            f"{label(study.name_of(pair.without), 34)}\n"
            f"{label(study.score)} {scores[0]:.3f} → {scores[1]:.3f},  ρ {rhos[0]:.2f} → {rhos[1]:.2f}",
            fontsize=9,
            linespacing=1.5,
        )
        lower.set_xlabel("rank")
        if column == 0:
            upper.set_ylabel("all training images")
            lower.set_ylabel("mean over classes")
    rows[0][0].legend(loc="best")
    figure.supylabel("singular value over their sum", fontsize=10)
    return figure


def _draw(axes: "Axes", pair: AblationPair, attribute: str, ablation: Ablation) -> None:
    for method, colour, name in ((pair.without, BLUE, "without"), (pair.with_it, RED, f"with {ablation.name}")):
        for spectra in method.spectra if len(method.spectra) > 1 else ():
            _line(axes, getattr(spectra, attribute), color=colour, linewidth=0.6, alpha=0.4)
        _line(axes, _mean_spectrum(method, attribute), color=colour, label=name)
    axes.set_yscale("log")
    axes.set_ylim(bottom=_SMALLEST)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")  # powers of ten would need formulas
    axes.grid(True, axis="y")


def _line(axes: "Axes", values: np.ndarray, **style: Any) -> None:
    axes.plot(np.arange(1, len(values) + 1), np.where(values >= _SMALLEST, values, np.nan), **style)
