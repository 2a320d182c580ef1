"""One run: from a recipe to a folder with weights, scores and what a report shows."""

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

import unseen
from unseen.core.config import Record, build
from unseen.core.errors import ConfigError
from unseen.core.folders import cache_folder
from unseen.core.progress import Progress, no_progress
from unseen.core.registry import REGISTRIES
from unseen.data import Catalogue, CatalogueDataset, FeatureArray, Split, check_images
from unseen.data.summary import describe_files
from unseen.evaluation import evaluate
from unseen.evaluation.report_sample import sample_for_report
from unseen.methods import Method, MethodInputs
from unseen.models import Embedder, build_embedder, embed, pretraining_of
from unseen.models.compiled_backbone import check_compiler
from unseen.models.engine import EngineChoice, EngineName, check_engine, has_onnx
from unseen.runs.depths import Parts, check_train_size, example_at_depth, initialize_head, items_at_depth, part_at_depth
from unseen.runs.recipe import Prepared, Recipe, prepare
from unseen.runs.run_folder import RunFolder
from unseen.samplers import EmbeddingAwareBatches
from unseen.training import Blend, Job, OptimizerSettings, State, WeightAverage, has_checkpoint, parameter_groups, train
from unseen.training.job import Validate

VALIDATION_SCORES = ("recall@1", "map@r")


def run(
    settings: Mapping[str, object] | Prepared,
    folder: str | Path,
    *,
    workers: int = 0,
    save_seconds: float = 30.0,
    cache: str | Path | None = None,
    progress: Progress = no_progress,
) -> Record:
    """Train and evaluate a model; a folder that holds part of this run is continued.

    Returns the content of `result.json`: scores on the unseen classes with counts and definitions, the history over
    epochs, the protocol of every number, and the seconds it took. `cache` is the folder for what the depths `top` and
    `frozen` compute once; by default the one of `unseen.core.folders.cache_folder`. Image files are decoded once before
    a run at depth `full`, unless `Prepared.images_checked` says that this was done.
    """
    prepared = settings if isinstance(settings, Prepared) else prepare(settings)
    recipe, catalogue, split, target = prepared.recipe, prepared.catalogue, prepared.split, RunFolder(Path(folder))
    if target.holds(recipe.to_mapping()) and target.is_finished:
        target.remove_leftovers()
        return target.result()
    began = time.monotonic()
    # What can be refused is refused before anything is written.
    check_engine(recipe.engine)
    if not prepared.images_checked and catalogue.reader.kind == "image files" and recipe.depth == "full":
        # The other depths decode every image once in any case, when they fill their cache.
        check_images(catalogue, np.concatenate([split.train, split.validation, split.test]))
    items = make_dataset(recipe, catalogue)
    model = model_of(recipe, items).to(device())
    check_train_size(recipe, model, items)
    parts = part_at_depth(recipe, model, items)
    job = _job(prepared, parts, items, save_seconds)
    with target.claimed(recipe.to_mapping(), unseen.__version__):
        cache = cache_folder() if cache is None else Path(cache)
        inputs = items_at_depth(prepared, parts, items, cache=cache, workers=workers)
        if inputs is not items:
            workers = 0  # rows of a cache need no processes to decode them
        if not has_checkpoint(target.checkpoints):
            initialize_head(prepared, parts.trained, inputs, workers)
        state = State()
        if job is not None:
            model_trained = job.objective.model  # with its head initialized
            job = replace(
                job,
                items=inputs,
                workers=workers,
                validate=_validator(recipe, inputs, split, workers),
                average=None if recipe.average is None else WeightAverage(model_trained, recipe.average),
                blend=None if recipe.blend is None else Blend(model_trained, recipe.blend),
            )
            state = train(job, target.checkpoints, progress)
        engine = _engine_of_test(recipe, parts)
        embeddings = embed(parts.trained, inputs, split.test, engine=engine, workers=workers)
        scores = evaluate(embeddings, **evaluation_arguments(catalogue, split))
        result = {
            "scores": scores.to_dict(),
            "history": state.history,
            "protocol": protocol_of(prepared, parts, items),
            "chosen_epoch": state.best_epoch,
            "blend": state.blend,
            "seconds": time.monotonic() - began,
        }
        assert scores.draws is not None, "the default bootstrap draws"
        sample = sample_for_report(embeddings.numpy(), catalogue, split)
        target.write(result, weights=model.state_dict(), report_sample=sample, draws=scores.draws)
    return result


def make_dataset(recipe: Recipe, catalogue: Catalogue) -> CatalogueDataset:
    """The catalogue's items with the recipe's transform."""
    transform = None if recipe.transform is None else build(REGISTRIES["transform"], recipe.transform)
    if transform is None and catalogue.reader.kind == "image files":
        raise ConfigError(
            "image files need a transform that brings them to one size", hint="Use --transform crop:size=224."
        )
    return CatalogueDataset(catalogue, transform)


def model_of(recipe: Recipe, items: CatalogueDataset) -> Embedder:
    """The recipe's model before training."""
    return build_embedder(
        recipe.model,
        input_shape=items.input_shape,
        embedding_size=recipe.embedding_size,
        batch_norm=recipe.batch_norm,
        seed=recipe.seed,
        head=build(REGISTRIES["method"], recipe.method).head,
    )


class LoadedRun(NamedTuple):
    """A finished run's recipe with its data, its dataset and its trained model."""

    prepared: Prepared
    items: CatalogueDataset
    model: Embedder


def load_run(folder: Path) -> LoadedRun:
    """Load a finished run.

    Raises:  ConfigError for a folder without one, or if its data have changed since
    """
    source = RunFolder(folder)
    if not source.is_run or not source.weights.is_file():
        raise ConfigError(
            f"{folder} is not the folder of a finished run", hint="Use a folder that `unseen train` wrote."
        )
    prepared = prepare(source.recipe())
    items = make_dataset(prepared.recipe, prepared.catalogue)
    model = model_of(prepared.recipe, items)
    model.load_state_dict(source.load_weights())
    return LoadedRun(prepared, items, model)


def evaluation_arguments(catalogue: Catalogue, split: Split) -> Record:
    """The arguments of `evaluate` besides the embeddings of `split.test`: labels, query rows and gallery rows."""
    labels = catalogue.labels[split.test]
    arguments = {
        "labels": labels,
        "queries": np.searchsorted(split.test, split.queries),
        "gallery": np.searchsorted(split.test, split.gallery),
    }
    groups = [] if catalogue.class_groups is None else [catalogue.class_groups[label] for label in labels]
    return arguments | ({"super_labels": groups} if len(set(groups)) > 1 else {})


def device() -> torch.device:
    """The device of a run: CUDA if there is one."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # torch requires it for reproducible matrix products
    return torch.device("cuda")


def _job(prepared: Prepared, parts: Parts, items: CatalogueDataset, save_seconds: float) -> Job | None:
    """The training job, without validation yet; None where the recipe trains nothing."""
    recipe, split = prepared.recipe, prepared.split
    loss = recipe.loss
    if loss is None or recipe.epochs == 0:
        return None
    if recipe.compile:
        check_compiler(device())
    labels = prepared.catalogue.labels[split.train]
    known = {"num_classes": len(np.unique(labels)), "seed": recipe.seed}
    inputs = MethodInputs(
        model=parts.trained,
        new_loss=lambda width: build(REGISTRIES["loss"], loss, known | {"embedding_size": width}),
        num_classes=known["num_classes"],
        example=lambda: example_at_depth(parts, items),
        seed=recipe.seed,
    )
    method: Method = build(REGISTRIES["method"], recipe.method)
    optimizer: OptimizerSettings = build(REGISTRIES["optimizer"], recipe.optimizer)
    objective = method.build(inputs).to(device())
    batches = build(REGISTRIES["sampler"], recipe.sampler).batches(labels, recipe.seed)
    if isinstance(batches, EmbeddingAwareBatches) and not objective.embeds:
        raise ConfigError(
            f"sampler '{recipe.sampler['name']}' needs the embeddings of single images, and method "
            f"'{recipe.method['name']}' computes none",
            hint="Use --sampler samples_per_class.",
        )
    return Job(
        objective=objective,
        optimizer=optimizer.build(parameter_groups(objective, head_lr=recipe.head_lr)),
        schedule=build(REGISTRIES["schedule"], recipe.schedule),
        items=items,
        indices=split.train,
        labels=labels,
        batches=batches,
        epochs=recipe.epochs,
        head_epochs=recipe.head_epochs,
        seed=recipe.seed,
        config=recipe.to_mapping(),
        clip_gradients=recipe.clip_gradients,
        autocast=recipe.autocast,
        compile=recipe.compile,
        choose_by=recipe.choose_by,
        patience=recipe.patience,
        save_seconds=save_seconds,
    )


def _validator(recipe: Recipe, items: CatalogueDataset, split: Split, workers: int) -> Validate | None:
    """The scores that choose the epoch: on the validation classes, or on the test classes if the recipe says so."""
    if recipe.choose_by == "last":
        return None
    if recipe.choose_on == "test":
        indices, arguments = split.test, evaluation_arguments(items.catalogue, split)
    else:
        indices, arguments = split.validation, {"labels": items.catalogue.labels[split.validation]}
    scores = [*dict.fromkeys([*VALIDATION_SCORES, recipe.choose_by])]

    def validate(model: nn.Module) -> dict[str, float]:
        # The weights change every epoch: a conversion would take longer than what it saves.
        embeddings = embed(model, items, indices, engine="torch", workers=workers)
        return dict(evaluate(embeddings, scores=scores, bootstrap=None, **arguments))

    return validate


def engine_of_run(recipe: Recipe, choice: EngineChoice) -> EngineChoice:
    """The engine for the embeddings of a finished run: "auto" is the run's own, torch where that is not installed."""
    if choice != "auto":
        return choice
    return recipe.engine if recipe.engine == "torch" or has_onnx() else "torch"


def _engine_of_test(recipe: Recipe, parts: Parts) -> EngineName:
    """What lies above a cache is small, and always runs in torch."""
    return recipe.engine if parts.below is None else "torch"


def protocol_of(prepared: Prepared, parts: Parts, items: CatalogueDataset) -> Record:
    """The protocol stamped on every number of a run: what must agree before two numbers are compared."""
    recipe, split, model = prepared.recipe, prepared.split, parts.model
    trained = recipe.loss is not None and recipe.epochs > 0
    if not trained:
        chosen = "nothing was trained"
    elif recipe.choose_by == "last":
        chosen = "last epoch"
    elif recipe.choose_on == "test":
        chosen = f"best {recipe.choose_by} on the test classes themselves, an optimistic choice"
    else:
        chosen = f"best {recipe.choose_by} on class-disjoint validation"
    has_features = isinstance(prepared.catalogue.reader, FeatureArray)
    pretraining = "not stated: features of a file" if has_features else pretraining_of(recipe.model)
    return {
        "data": recipe.data | {"fingerprint": recipe.data_fingerprint},
        "files": describe_files(prepared.catalogue),
        "split": recipe.split | {"fingerprint": recipe.split_fingerprint, "counts": split.counts()} | split.facts,
        "model": recipe.model,
        "pretraining": pretraining,
        "depth": recipe.depth,
        "cut": recipe.cut,
        "views": recipe.views,
        "input": list(items.input_shape),
        "transform": recipe.transform,
        "decoding": items.decoding,
        "embedding_size": model.width,
        "head": None if recipe.embedding_size is None else recipe.head,
        "batch_norm": "frozen statistics" if model.freezes_batch_norm else "trained",
        "loss": recipe.loss,
        "method": recipe.method if trained else None,
        "sampler": recipe.sampler if trained else None,
        "optimizer": recipe.optimizer if trained else None,
        "schedule": recipe.schedule if trained else None,
        "head_epochs": recipe.head_epochs if trained else 0,
        "epochs": recipe.epochs if trained else 0,
        "head_lr": recipe.head_lr if trained else None,
        "average": recipe.average if trained else None,
        "blend": recipe.blend if trained else None,
        "clip_gradients": recipe.clip_gradients,
        "autocast": recipe.autocast,
        "compile": recipe.compile,
        "engine": {"cache": None if parts.below is None else recipe.engine, "test": _engine_of_test(recipe, parts)},
        "checkpoint": chosen,
        "seed": recipe.seed,
        "versions": {"unseen": unseen.__version__, "torch": str(torch.__version__)},
    }
