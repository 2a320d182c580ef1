"""Depths of training: which part of a network is trained, and what its inputs are."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unseen.core.errors import ConfigError
from unseen.data import CatalogueDataset, ItemKey
from unseen.models import (
    Embedder,
    Identity,
    OutputCache,
    ViewSelection,
    cached_dataset,
    embed,
    hash_of_weights,
    initialize_linear_head,
    linear_layer,
    split_at,
)
from unseen.runs.recipe import Prepared, Recipe


class Parts(NamedTuple):
    """A model in two: the trained part, and what lies below it and is computed once (None when all is trained)."""

    model: Embedder
    trained: Embedder
    below: nn.Module | None


def part_at_depth(recipe: Recipe, model: Embedder, items: CatalogueDataset) -> Parts:
    """Divide a model at the recipe's depth (see `Recipe`); the parts share its parameters."""
    if recipe.depth == "full" or (recipe.depth == "frozen" and isinstance(model.backbone, Identity)):
        return Parts(model, model, None)
    if recipe.depth == "frozen":
        return Parts(model, model.with_backbone(Identity(input_shape=(model.backbone.width,))), model.backbone)
    if recipe.cut is None:
        raise ConfigError(
            "depth top: there is no default stage to cut this model at", hint="Use --cut with one of its stages."
        )
    device = next(model.parameters()).device
    lower, upper = split_at(model.backbone, recipe.cut, items[ItemKey(0, None)].inputs.to(device))
    return Parts(model, model.with_backbone(upper), lower)


def example_at_depth(parts: Parts, items: CatalogueDataset) -> Tensor:
    """One input of the trained part."""
    network = nn.Identity() if parts.below is None else parts.below.eval()
    device = next(parts.trained.parameters()).device
    with torch.no_grad():
        return network(items[ItemKey(0, None)].inputs.to(device))


def check_train_size(recipe: Recipe, model: Embedder, items: CatalogueDataset) -> None:
    """Refuse crops for training of a size that the model does not take; its input size is that of the evaluation.

    Raises:     ConfigError
    """
    if recipe.loss is None or recipe.transform is None or not recipe.crops_by_two_sizes:
        return
    device = next(model.parameters()).device
    try:
        with torch.inference_mode():
            fits = model.backbone.eval()(items[ItemKey(0, 0)].inputs.to(device)).shape[1] == model.backbone.width
    except (AssertionError, RuntimeError):  # timm asserts sizes; torch refuses shapes
        fits = False
    if not fits:
        raise ConfigError(
            f"model '{recipe.model.get('architecture', recipe.model['name'])}' takes no crops of this train_size",
            got=recipe.transform["train_size"],
            hint=f"Use another train_size, or {recipe.transform['size']} as at evaluation.",
        )


def items_at_depth(
    prepared: Prepared, parts: Parts, items: CatalogueDataset, *, cache: Path, workers: int
) -> CatalogueDataset:
    """The inputs of the trained part: the items themselves, or the cached outputs of what lies below."""
    if parts.below is None:
        return items
    recipe, split = prepared.recipe, prepared.split
    architecture = {key: value for key, value in recipe.model.items() if key not in ("weights", "pretrained")}
    pooled = recipe.depth == "frozen"
    return cached_dataset(
        parts.below,
        items,
        OutputCache(
            folder=cache,
            made_by={
                "model": architecture,
                "weights": hash_of_weights(parts.model.backbone),
                "transform": recipe.transform,
                "cut": "pooled" if pooled else recipe.cut,
            },
            dtype="float32" if pooled else "float16",
            description="pooled features" if pooled else f"activations below {recipe.cut}",
            engine=recipe.engine,
        ),
        ViewSelection(
            indices=np.sort(np.concatenate([split.train, split.validation, split.test])),
            augmented=split.train,
            views=recipe.views,
        ),
        workers=workers,
    )


def initialize_head(prepared: Prepared, trained: Embedder, items: CatalogueDataset, workers: int) -> None:
    """Initialize the head of a model before training, as the recipe says."""
    start = prepared.recipe.head
    if start != "random" and linear_layer(trained.head) is not None:
        features = embed(trained.backbone, items, prepared.split.train, engine="torch", workers=workers)
        labels = torch.from_numpy(prepared.catalogue.labels[prepared.split.train])
        initialize_linear_head(trained.head, features, start, labels)
