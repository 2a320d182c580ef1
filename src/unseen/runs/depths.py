"""Depths of training: which part of a network is trained, and what that part is given."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unseen.core.errors import ConfigError
from unseen.data import CatalogueDataset, ItemKey, Split
from unseen.models import (
    Embedder,
    Identity,
    cached_dataset,
    embed,
    hash_of_weights,
    initialize_linear_head,
    linear_layer,
    split_at,
)
from unseen.runs.recipe import Recipe


class Parts(NamedTuple):
    """A network in two: what is trained, and what lies below it and is computed once (None when all is trained)."""

    trained: Embedder
    below: nn.Module | None


def part_at_depth(recipe: Recipe, model: Embedder, items: CatalogueDataset) -> Parts:
    """The part of a model that a recipe trains; it shares the model's parameters, so that training it trains the model.

    ========  ==========================================================================
    full      the whole model, on images
    top       the backbone from the stage `cut` on and the head, on cached activations
    frozen    the head, on cached pooled features
    ========  ==========================================================================
    """
    if recipe.depth == "full" or (recipe.depth == "frozen" and isinstance(model.backbone, Identity)):
        return Parts(model, None)
    if recipe.depth == "frozen":
        return Parts(model.on(Identity(input_shape=(model.backbone.width,))), model.backbone)
    if recipe.cut is None:
        raise ConfigError(
            "depth top: it is not known where to cut this model", hint="Use --cut with one of its stages."
        )
    device = next(model.parameters()).device
    lower, upper = split_at(model.backbone, recipe.cut, items[ItemKey(0, None)].inputs.to(device))
    return Parts(model.on(upper), lower)


def example_at_depth(parts: Parts, items: CatalogueDataset) -> Tensor:
    """One input of the part that is trained."""
    network = nn.Identity() if parts.below is None else parts.below.eval()
    device = next(parts.trained.parameters()).device
    with torch.no_grad():
        return network(items[ItemKey(0, None)].inputs.to(device))


def items_at_depth(
    recipe: Recipe, model: Embedder, parts: Parts, items: CatalogueDataset, split: Split, *, cache: Path, workers: int
) -> CatalogueDataset:
    """What the trained part is given: the items themselves, or what lies below makes of them, cached."""
    if parts.below is None:
        return items
    described = {key: value for key, value in recipe.model.items() if key not in ("weights", "pretrained")}
    pooled = recipe.depth == "frozen"
    return cached_dataset(
        parts.below,
        items,
        made_by={
            "model": described,
            "weights": hash_of_weights(model.backbone),
            "transform": recipe.transform,
            "cut": "pooled" if pooled else recipe.cut,
        },
        indices=np.sort(np.concatenate([split.train, split.validation, split.test])),
        augmented=split.train,
        views=recipe.views,
        dtype="float32" if pooled else "float16",
        folder=cache,
        what="pooled features" if pooled else f"activations below {recipe.cut}",
        workers=workers,
    )


def initialize_head(recipe: Recipe, trained: Embedder, items: CatalogueDataset, split: Split, workers: int) -> None:
    """Set the head of a model that is about to be trained to the start that the recipe asks for."""
    if recipe.head != "random" and linear_layer(trained.head) is not None:
        features = embed(trained.backbone, items, split.train, workers=workers)
        initialize_linear_head(trained.head, features, recipe.head)  # type: ignore[arg-type]
