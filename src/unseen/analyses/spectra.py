"""Analysis `spectra`: singular values with and without rho-regularisation."""

from unseen.analyses.base import AnalysisInputs, AnalysisResult
from unseen.analyses.spectral.ablations import RHO_REGULARISATION
from unseen.analyses.spectral.paired_spectra import paired_spectra
from unseen.analyses.spectral.trained_methods import read_trained_methods
from unseen.core.registry import analysis


@analysis("spectra")
def spectra(inputs: AnalysisInputs, /, *, score: str = "recall@1") -> AnalysisResult:
    """Singular values with and without rho-regularisation, of all images and per class.

    =====  ======================================================
    score  The score on unseen classes that methods are compared by.
    =====  ======================================================

    Reference:  Roth et al., ICML 2020, arXiv:2002.08473, figure 11
    """
    return paired_spectra(read_trained_methods(inputs, score), RHO_REGULARISATION)
