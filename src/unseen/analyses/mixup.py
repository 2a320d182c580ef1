"""Analysis `mixup`: singular values, spectral decay and a score with and without manifold mixup."""

from unseen.analyses.base import AnalysisInputs, AnalysisResult
from unseen.analyses.spectral.ablations import MIXUP
from unseen.analyses.spectral.paired_spectra import paired_spectra
from unseen.analyses.spectral.trained_methods import read_trained_methods
from unseen.core.registry import analysis


@analysis("mixup")
def mixup(inputs: AnalysisInputs, /, *, score: str = "recall@1") -> AnalysisResult:
    """Singular values, spectral decay and a score with and without manifold mixup.

    =====  ======================================================
    score  The score on unseen classes that methods are compared by.
    =====  ======================================================

    Reference:  Roth et al., ICML 2020, arXiv:2002.08473, figure 13
    """
    return paired_spectra(read_trained_methods(inputs, score), MIXUP)
