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

Values = NDArray[np.float64]
FILE = "spectra.json"
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class RunSpectra:
    """How a trained model uses its dimensions on its training images (SPEC 4.9, 4.10).

    ==========  ===============================================================================================
    values      all singular values of the embeddings over their sum, as many as there are dimensions
    by_class    the same of each class by itself, averaged over classes: the first 35, zeros behind short ones
    ==========  ===============================================================================================
    """

    values: Values
    by_class: Values

    @property
    def rho(self) -> float:
        """Spectral decay of the training embeddings; larger is more compressed."""
        return spectral_decay(self.values)


def run_spectra(folder: Path, *, cache: Path | None = None, workers: int = 0) -> RunSpectra:
    """The spectra of a finished run; kept beside its weights, and computed anew if those are others.

    Raises:     DataError for a folder without a finished run, ConfigError if the run's data have changed
    """
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise DataError(f"{folder} holds no trained weights", hint="Use the folder of a study whose cells are kept.")
    made_of = {"format": _FORMAT, "weights": sha256_of(weights)}
    if (folder / FILE).is_file():
        kept = read_json(folder / FILE)
        if kept.get("made_of") == made_of:
            return RunSpectra(np.array(kept["values"]), np.array(kept["by_class"]))
    found = _computed(folder, cache_folder() if cache is None else cache, workers)
    content = {"made_of": made_of, "values": found.values.tolist(), "by_class": found.by_class.tolist()}
    write_json(folder / FILE, content)
    return found


def _computed(folder: Path, cache: Path, workers: int) -> RunSpectra:
    prepared, items, model = load_run(folder)
    recipe, catalogue, split = prepared.recipe, prepared.catalogue, prepared.split
    # What lies below the trained part is as it was before training: its cached outputs serve all runs of a study.
    before = model_of(recipe, items)
    seen = items_at_depth(prepared, part_at_depth(recipe, before, items), items, cache=cache, workers=workers)
    embeddings = embed(part_at_depth(recipe, model, items).trained, seen, split.train, workers=workers)
    directions = read_directions(embeddings)
    _, classes = np.unique(catalogue.labels[split.train], return_inverse=True)
    return RunSpectra(over_sum(singular_values(directions)), class_spectra(directions, classes).mean)
