"""Spectra of a finished run: the singular values of its training embeddings, computed once and kept in its folder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unseen.core.errors import DataError
from unseen.core.files import read_json, sha256_of, write_json
from unseen.core.paths import cache_folder
from unseen.evaluation.exact.directions import read_directions
from unseen.evaluation.scores.spectra import class_spectra, over_sum, singular_values, spectral_decay
from unseen.models import embed
from unseen.runs.depths import items_at_depth, part_at_depth
from unseen.runs.run_recipe import load_run, model_of

FILE = "spectra.json"
_FORMAT = 1


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


def run_spectra(folder: Path, *, cache: Path | None = None, workers: int = 0) -> RunSpectra:
    """The spectra of a finished run; kept beside its weights, and computed again if the weights have changed.

    Raises:     DataError for a folder without a finished run, ConfigError if the run's data have changed
    """
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise DataError(
            f"{folder} holds no trained weights", hint="Use the folder of a study whose cells were not deleted."
        )
    made_of = {"format": _FORMAT, "weights": sha256_of(weights)}
    if (folder / FILE).is_file():
        stored = read_json(folder / FILE)
        if stored.get("made_of") == made_of:
            return RunSpectra(np.array(stored["values"]), np.array(stored["by_class"]))
    spectra = _compute(folder, cache_folder() if cache is None else cache, workers)
    content = {"made_of": made_of, "values": spectra.values.tolist(), "by_class": spectra.by_class.tolist()}
    write_json(folder / FILE, content)
    return spectra


def _compute(folder: Path, cache: Path, workers: int) -> RunSpectra:
    prepared, items, model = load_run(folder)
    recipe, catalogue, split = prepared.recipe, prepared.catalogue, prepared.split
    # Layers below the trained part are as before training: their cached outputs serve all runs of a study.
    initial = model_of(recipe, items)
    inputs = items_at_depth(
        recipe, initial, part_at_depth(recipe, initial, items), items, split, cache=cache, workers=workers
    )
    embeddings = embed(part_at_depth(recipe, model, items).trained, inputs, split.train, workers=workers)
    directions = read_directions(embeddings)
    _, classes = np.unique(catalogue.labels[split.train], return_inverse=True)
    return RunSpectra(over_sum(singular_values(directions)), class_spectra(directions, classes).mean)
