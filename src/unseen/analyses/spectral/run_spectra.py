"""Spectra of a finished run: the singular values of its training embeddings, computed once and kept in its folder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unseen.analyses.run_files import RunFile, load_trained_part
from unseen.evaluation.exact.directions import read_directions
from unseen.evaluation.scores.spectra import class_spectra, over_sum, singular_values, spectral_decay
from unseen.models import embed

FILE = "spectra.json"


@dataclass(frozen=True, eq=False)
class RunSpectra:
    """Singular values of a trained model's embeddings of its training images, each spectrum divided by its sum.

    ==========  ===============================================================================
    values      of all training images, as many values as the embedding has dimensions
    by_class    of each class alone, averaged over classes: the first 35, shorter ones padded with zeros
    ==========  ===============================================================================

    Reference:  Roth et al., ICML 2020, arXiv:2002.08473, section 5 and figure 11
    """

    values: NDArray[np.float64]
    by_class: NDArray[np.float64]

    @property
    def rho(self) -> float:
        """Spectral decay of the training embeddings; larger is more compressed."""
        return spectral_decay(self.values)


def run_spectra(folder: Path, *, cache: Path | None = None) -> RunSpectra:
    """The spectra of a finished run; kept beside its weights, and computed again if the weights have changed.

    Raises:     DataError for a folder without a finished run, ConfigError if the run's data have changed
    """
    file = RunFile(folder, FILE, {})
    if not file.content:
        part = load_trained_part(folder, cache=cache)
        directions = read_directions(embed(part.model, part.inputs, part.split.train))
        _, classes = np.unique(part.inputs.catalogue.labels[part.split.train], return_inverse=True)
        values, by_class = over_sum(singular_values(directions)), class_spectra(directions, classes).mean
        file.write({"values": values.tolist(), "by_class": by_class.tolist()})
    return RunSpectra(np.array(file.content["values"]), np.array(file.content["by_class"]))
