"""Pooled features of a whole catalogue by a backbone that is not trained, cached as the depth `frozen` caches them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unseen.core.config import Record
from unseen.core.paths import cache_folder
from unseen.data import Catalogue, Split
from unseen.models import embed
from unseen.runs.depths import items_at_depth, part_at_depth
from unseen.runs.recipe import Prepared, Recipe, prepare
from unseen.runs.run_recipe import make_dataset, model_of


class Pooled(NamedTuple):
    """Features of every item of a catalogue, and the recipe that gave them."""

    catalogue: Catalogue
    features: np.ndarray
    recipe: Recipe

    @property
    def made_by(self) -> Record:
        """What decides the features beside the data: the settings that make them again."""
        return made_by(self.recipe)


def made_by(recipe: Recipe) -> Record:
    """What decides pooled features beside the data."""
    return {"model": recipe.model, "transform": recipe.transform, "seed": recipe.seed}


def pooled_features(settings: Mapping[str, Any], *, cache: Path | None = None, workers: int = 0) -> Pooled:
    """The features that a run with these settings (`data`, `model`, `transform`, `seed`) would train a head on."""
    return pool(prepare_pooled(settings), cache=cache, workers=workers)


def prepare_pooled(settings: Mapping[str, Any]) -> Prepared:
    """The recipe of pooled features, before any is computed."""
    own = {"depth": "frozen", "loss": None, "embedding_size": None, "head": "random"}
    return prepare({**settings, **own})


def pool(prepared: Prepared, *, cache: Path | None = None, workers: int = 0) -> Pooled:
    """The features of what was prepared."""
    features = features_by(prepared.recipe, prepared.catalogue, cache=cache, workers=workers)
    return Pooled(prepared.catalogue, features, prepared.recipe)


def features_by(recipe: Recipe, catalogue: Catalogue, *, cache: Path | None = None, workers: int = 0) -> np.ndarray:
    """The features of any catalogue by the model and the transform of a recipe of depth `frozen`."""
    if catalogue.reader.kind == "features" and recipe.model["name"] == "identity":
        return catalogue.reader.features  # type: ignore[attr-defined]
    everything = np.arange(len(catalogue))
    items = make_dataset(recipe, catalogue)
    model = model_of(recipe, items)
    parts = part_at_depth(recipe, model, items)
    nothing = everything[:0]
    whole = Split(
        name="everything",
        train=everything,
        validation=nothing,
        test=nothing,
        queries=nothing,
        gallery=nothing,
        classes={},
        fingerprint="",
    )
    where = cache_folder() if cache is None else cache
    seen = items_at_depth(recipe, model, parts, items, whole, cache=where, workers=workers)
    features = embed(parts.trained, seen, everything, workers=workers if seen is items else 0)
    return features.flatten(1).numpy()
