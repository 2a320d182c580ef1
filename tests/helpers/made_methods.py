"""Made-up methods with and without a component, for the analyses of spectra."""

from tests.helpers.made_studies import distance_loss, write_study
from unseen.analyses.base import AnalysisInputs
from unseen.analyses.spectral.trained_methods import read_trained_methods

# label -> loss, method, recall@1, rate of decay (1 would be a flat spectrum)
REGULARISATION = {
    "margin": (distance_loss(), "plain", 0.50, 0.6),
    "R-margin": (distance_loss(p_switch=0.3), "plain", 0.55, 0.8),
    "triplet": (distance_loss("triplet"), "plain", 0.40, 0.5),
    "R-triplet": (distance_loss("triplet", 0.3), "plain", 0.52, 0.7),
    "multi-similarity": ({"name": "multi_similarity"}, "plain", 0.60, 0.9),
    "R-snr": (distance_loss("snr", 0.3), "plain", 0.45, 0.65),
}
SWEEP = {
    "margin": (distance_loss(), "plain", 0.5, 0.6),
    **{f"R {p}": (distance_loss(p_switch=p), "plain", 0.5 + p / 10, 0.6 + p / 5) for p in (0.4, 0.1, 0.2)},
}
MIXUP = {
    "margin": (distance_loss(), "plain", 0.5, 0.6),
    "margin, mixup": (distance_loss(), "mixup", 0.4, 0.5),
}


def methods_from(folder, methods, **settings):
    """The trained methods of a made-up study."""
    return read_trained_methods(AnalysisInputs(write_study(folder / "study", methods, **settings)), "recall@1")
