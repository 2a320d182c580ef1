"""Pooled features of a whole catalogue by a backbone that is not trained, cached as at depth `frozen`."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.core.config import Record
from unseen.core.folders import cache_folder
from unseen.data import Catalogue, FeatureArray, Split
from unseen.models import embed
from unseen.runs.depths import items_at_depth, part_at_depth
from unseen.runs.recipe import Prepared, Recipe, prepare
from unseen.runs.run_recipe import make_dataset, model_of
from unseen.shifts import LadderSource


class Pooled(NamedTuple):
    """Features of every item of a catalogue, and the recipe that made them."""

    catalogue: Catalogue
    features: np.ndarray
    recipe: Recipe

    @property
    def ladder_source(self) -> LadderSource:
        """The features as a ladder is built on them."""
        return LadderSource(self.catalogue, self.features, self.recipe.data, made_by(self.recipe))


def made_by(recipe: Recipe) -> Record:
    """The settings that make pooled features again from the same data."""
    return {"model": recipe.model, "transform": recipe.transform, "seed": recipe.seed}


def pooled_features(settings: Mapping[str, object], *, cache: Path | None = None, workers: int = 0) -> Pooled:
    """The features that a run with these settings (`data`, `model`, `transform`, `seed`) would train a head on."""
    return pool(prepare_pooled(settings), cache=cache, workers=workers)


def prepare_pooled(settings: Mapping[str, object]) -> Prepared:
    """The recipe of pooled features, before any is computed."""
    return prepare({**settings, "depth": "frozen", "loss": None, "embedding_size": None, "head": "random"})


def pool(prepared: Prepared, *, cache: Path | None = None, workers: int = 0) -> Pooled:
    """The features of a prepared recipe."""
    features = features_by(prepared.recipe, prepared.catalogue, cache=cache, workers=workers)
    return Pooled(prepared.catalogue, features, prepared.recipe)


def features_by(recipe: Recipe, catalogue: Catalogue, *, cache: Path | None = None, workers: int = 0) -> np.ndarray:
    """The features of any catalogue by the model and the transform of a recipe of depth `frozen`."""
    if isinstance(catalogue.reader, FeatureArray) and recipe.model["name"] == "identity":
        return catalogue.reader.features
    everything = np.arange(len(catalogue))
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
    items = make_dataset(recipe, catalogue)
    parts = part_at_depth(recipe, model_of(recipe, items), items)
    cache = cache_folder() if cache is None else cache
    inputs = items_at_depth(Prepared(recipe, catalogue, whole), parts, items, cache=cache, workers=workers)
    features = embed(parts.trained, inputs, everything, engine="torch", workers=workers if inputs is items else 0)
    return features.flatten(1).numpy()
