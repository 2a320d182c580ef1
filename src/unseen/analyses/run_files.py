"""Numbers that are computed from the weights of a finished run, once, and kept beside them."""

from pathlib import Path
from typing import NamedTuple

from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.core.files import read_json, sha256_of, write_json
from unseen.core.folders import cache_folder
from unseen.data import CatalogueDataset, Split
from unseen.models import Embedder
from unseen.runs.depths import items_at_depth, part_at_depth
from unseen.runs.recipe import Recipe
from unseen.runs.run_folder import RunFolder
from unseen.runs.run_recipe import load_run, model_of

_FORMAT = 1


class RunFile:
    """A JSON file in a run's folder; its content counts only if it was made of the same weights and settings.

    Raises:     DataError for a folder without a finished run
    """

    def __init__(self, folder: Path, name: str, settings: Record) -> None:
        weights = RunFolder(folder).weights
        if not weights.is_file():
            raise DataError(
                f"{folder} holds no trained weights", hint="Use the folder of a study whose cells were not deleted."
            )
        self.folder = folder
        self._path = folder / name
        self._made_of: Record = {"format": _FORMAT, "weights": sha256_of(weights), **settings}
        stored = read_json(self._path) if self._path.is_file() else {}
        self.content: Record = stored if stored.get("made_of") == self._made_of else {}

    def write(self, content: Record) -> None:
        """Replace the content."""
        self.content = {"made_of": self._made_of, **content}
        write_json(self._path, self.content)


class TrainedPart(NamedTuple):
    """The trained part of a run's model, and its inputs: images, or cached outputs of the layers below it."""

    recipe: Recipe
    split: Split
    model: Embedder
    inputs: CatalogueDataset


def load_trained_part(folder: Path, *, cache: Path | None) -> TrainedPart:
    """The trained part of a finished run.

    Raises:     ConfigError if the run's data have changed
    """
    prepared, items, model = load_run(folder)
    recipe, split = prepared.recipe, prepared.split
    # Layers below the trained part are as before training: their cached outputs serve all runs of a study.
    initial = model_of(recipe, items)
    initial_part = part_at_depth(recipe, initial, items)
    cache = cache_folder() if cache is None else cache
    inputs = items_at_depth(prepared, initial_part, items, cache=cache, workers=0)
    return TrainedPart(recipe, split, part_at_depth(recipe, model, items).trained, inputs)
