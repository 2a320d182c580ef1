"""One run: from a recipe to a folder with weights, scores and what a report shows."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import nn

import unseen
from unseen.core.config import Record, build
from unseen.core.errors import ConfigError
from unseen.core.files import read_json, remove_folder, sweep, write_bytes, write_json
from unseen.core.locks import exclusive
from unseen.core.paths import cache_folder
from unseen.core.registry import REGISTRIES
from unseen.data import Catalogue, CatalogueDataset, Split, check_images
from unseen.evaluation import evaluate
from unseen.evaluation.draws_files import save_draws
from unseen.evaluation.report_sample import save_report_sample, show
from unseen.methods import MethodInputs
from unseen.models import Embedder, build_embedder, embed
from unseen.runs.depths import Parts, example_at_depth, initialize_head, items_at_depth, part_at_depth
from unseen.runs.recipe import Prepared, Recipe, prepare
from unseen.samplers import EmbeddingAwareBatches
from unseen.training.checkpoints import has_checkpoint
from unseen.training.loop import Job, State, train
from unseen.training.optimizers import parameter_groups

Progress = Callable[[int, int, str], None]
VALIDATION_SCORES = ("recall@1", "map@r")


def _say_nothing(done: int, total: int, words: str) -> None:
    return


def run(
    settings: Mapping[str, Any] | Prepared,
    folder: str | Path,
    *,
    workers: int = 0,
    save_seconds: float = 30.0,
    check_files: bool = True,
    cache: str | Path | None = None,
    progress: Progress = _say_nothing,
) -> Record:
    """Train and evaluate what the settings describe; a folder that holds part of this run is continued.

    Gives the content of `result.json`: scores on the unseen classes with counts and definitions, the history over
    epochs, the protocol of every number, and the seconds it took. `cache` is the folder for what the depths `top` and
    `frozen` compute once; by default the one of `unseen.core.paths.cache_folder`.
    """
    prepared = settings if isinstance(settings, Prepared) else prepare(settings)
    recipe, catalogue, split, folder = prepared.recipe, prepared.catalogue, prepared.split, Path(folder)
    if _holds(folder, recipe) and (folder / "result.json").exists():
        return read_json(folder / "result.json")
    began = time.monotonic()
    # What can be refused is refused before anything is written.
    if check_files and catalogue.reader.kind == "image files" and recipe.depth == "full":
        # The other depths decode every image once in any case, when they fill their cache.
        check_images(catalogue, np.concatenate([split.train, split.validation, split.test]))
    items = make_dataset(recipe, catalogue)
    model = model_of(recipe, items).to(device())
    parts = part_at_depth(recipe, model, items)
    job = _job(prepared, parts, items, save_seconds)
    with _claimed(folder, recipe):
        where = cache_folder() if cache is None else Path(cache)
        seen = items_at_depth(recipe, model, parts, items, split, cache=where, workers=workers)
        if seen is not items:
            workers = 0  # rows of a cache need no processes to decode them
        if not has_checkpoint(folder / "checkpoints"):
            initialize_head(recipe, parts.trained, seen, split, workers)
        if job is not None:
            job = replace(job, items=seen, workers=workers, validate=_validator(recipe, seen, split, workers))
        state = State() if job is None else train(job, folder / "checkpoints", progress)
        embeddings = embed(parts.trained, seen, split.test, workers=workers)
        scores = evaluate(embeddings, **evaluation_arguments(catalogue, split))
        weights = {name: each.cpu().contiguous() for name, each in model.state_dict().items()}
        write_bytes(folder / "model.safetensors", save(weights))
        save_report_sample(folder / "shown.npz", show(embeddings.numpy(), catalogue, split))
        assert scores.draws is not None, "the default bootstrap draws"
        save_draws(folder / "draws.npz", scores.draws)
        result = {
            "scores": scores.to_dict(),
            "history": state.history,
            "protocol": protocol_of(prepared, model, items),
            "chosen_epoch": state.best_epoch,
            "seconds": time.monotonic() - began,
        }
        write_json(folder / "result.json", result)
        # The weights are in model.safetensors now; what only served to continue can go.
        remove_folder(folder / "checkpoints")
    return result


def make_dataset(recipe: Recipe, catalogue: Catalogue) -> CatalogueDataset:
    """The catalogue's items, seen through the recipe's transform."""
    transform = None if recipe.transform is None else build(REGISTRIES["transform"], recipe.transform)
    if transform is None and catalogue.reader.kind == "image files":
        raise ConfigError(
            "image files need a transform that brings them to one size", hint="Use --transform crop:size=160."
        )
    return CatalogueDataset(catalogue, transform)


def model_of(recipe: Recipe, items: CatalogueDataset) -> Embedder:
    """The recipe's model before training."""
    return build_embedder(
        recipe.model,
        input_shape=items.input_shape,
        embedding_size=recipe.embedding_size,
        batch_norm=recipe.batch_norm,  # type: ignore[arg-type]
        seed=recipe.seed,
        head=build(REGISTRIES["method"], recipe.method).head,
    )


def load_run(folder: Path) -> tuple[Prepared, CatalogueDataset, Embedder]:
    """A finished run's recipe, data and trained model."""
    if not (folder / "run.json").is_file() or not (folder / "model.safetensors").is_file():
        raise ConfigError(
            f"{folder} is not the folder of a finished run", hint="Use a folder that `unseen train` wrote."
        )
    prepared = prepare(read_json(folder / "run.json")["recipe"])
    items = make_dataset(prepared.recipe, prepared.catalogue)
    model = model_of(prepared.recipe, items)
    model.load_state_dict(load_file(folder / "model.safetensors"))
    return prepared, items, model


def evaluation_arguments(catalogue: Catalogue, split: Split) -> Record:
    """What `evaluate` needs beside the embeddings of `split.test`: labels, and which rows ask and answer."""
    labels = catalogue.labels[split.test]
    side = {
        "labels": labels,
        "queries": np.searchsorted(split.test, split.queries),
        "gallery": np.searchsorted(split.test, split.gallery),
    }
    groups = [] if catalogue.class_groups is None else [catalogue.class_groups[label] for label in labels]
    return side | ({"super_labels": groups} if len(set(groups)) > 1 else {})


def device() -> torch.device:
    """The device of a run: CUDA where there is one."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it matrix products are not reproducible
    return torch.device("cuda")


def _holds(folder: Path, recipe: Recipe) -> bool:
    """Whether the folder holds this run, finished or begun; one that holds another run is refused."""
    if not (folder / "run.json").exists():
        return False
    held = read_json(folder / "run.json").get("recipe", {})
    differs = sorted(key for key, value in recipe.to_mapping().items() if held.get(key) != value)
    if differs:
        raise ConfigError(
            f"{folder} holds another run (it differs in {', '.join(differs)})",
            hint="Use another --out folder, or remove this one.",
        )
    return True


@contextmanager
def _claimed(folder: Path, recipe: Recipe) -> Iterator[None]:
    """Hold a run's folder alone, so that two processes never write to one run."""
    folder.mkdir(parents=True, exist_ok=True)

    def refuse() -> None:
        raise ConfigError(f"another process is at work in {folder}", hint="Use another --out folder, or wait.")

    with exclusive(folder / ".lock", when_busy=refuse):
        sweep(folder)
        if not _holds(folder, recipe):
            write_json(folder / "run.json", {"unseen": unseen.__version__, "recipe": recipe.to_mapping()})
        try:
            yield
        finally:
            # Ctrl-C may come in the middle of a write or of a removal; what it leaves goes with it.
            for swept in (folder, folder / "checkpoints"):
                sweep(swept)


def _job(prepared: Prepared, parts: Parts, items: CatalogueDataset, save_seconds: float) -> Job | None:
    """What there is to train, not yet validated; None where the recipe trains nothing."""
    recipe, split = prepared.recipe, prepared.split
    loss = recipe.loss
    if loss is None or recipe.epochs == 0:
        return None
    labels = prepared.catalogue.labels[split.train]
    known = {"num_classes": len(np.unique(labels)), "seed": recipe.seed}
    ground = MethodInputs(
        model=parts.trained,
        new_loss=lambda width: build(REGISTRIES["loss"], loss, known | {"embedding_size": width}),
        example=lambda: example_at_depth(parts, items),
        seed=recipe.seed,
    )
    objective = build(REGISTRIES["method"], recipe.method).build(ground).to(device())
    batches = build(REGISTRIES["sampler"], recipe.sampler).batches(labels, recipe.seed)
    if isinstance(batches, EmbeddingAwareBatches) and not objective.embeds:
        raise ConfigError(
            f"sampler '{recipe.sampler['name']}' follows the embeddings of single images, and method "
            f"'{recipe.method['name']}' trains on none",
            hint="Use --sampler samples_per_class.",
        )
    return Job(
        objective=objective,
        optimizer=build(REGISTRIES["optimizer"], recipe.optimizer).build(parameter_groups(objective)),
        schedule=build(REGISTRIES["schedule"], recipe.schedule),
        items=items,
        indices=split.train,
        labels=labels,
        batches=batches,
        epochs=recipe.epochs,
        seed=recipe.seed,
        config=recipe.to_mapping(),
        clip_gradients=recipe.clip_gradients,
        autocast=recipe.autocast,
        choose_by=recipe.choose_by,
        patience=recipe.patience,
        save_seconds=save_seconds,
    )


def _validator(
    recipe: Recipe, items: CatalogueDataset, split: Split, workers: int
) -> Callable[[nn.Module], dict[str, float]] | None:
    """What chooses the epoch: scores on the validation classes, or on the test classes where the recipe says so."""
    if recipe.choose_by == "last":
        return None
    if recipe.choose_on == "test":
        indices, side = split.test, evaluation_arguments(items.catalogue, split)
    else:
        indices, side = split.validation, {"labels": items.catalogue.labels[split.validation]}
    scores = [*dict.fromkeys([*VALIDATION_SCORES, recipe.choose_by])]

    def validate(model: nn.Module) -> dict[str, float]:
        embeddings = embed(model, items, indices, workers=workers)
        return dict(evaluate(embeddings, scores=scores, bootstrap=None, **side))

    return validate


def protocol_of(prepared: Prepared, model: Embedder, items: CatalogueDataset) -> Record:
    """What a reader must know of a number before comparing it with another (DESIGN decision 7)."""
    recipe, split = prepared.recipe, prepared.split
    trained = recipe.loss is not None and recipe.epochs > 0
    if not trained:
        chosen = "nothing was trained"
    elif recipe.choose_by == "last":
        chosen = "last epoch"
    elif recipe.choose_on == "test":
        chosen = f"best {recipe.choose_by} on the test classes themselves, an optimistic choice"
    else:
        chosen = f"best {recipe.choose_by} on class-disjoint validation"
    return {
        "data": recipe.data | {"fingerprint": recipe.data_fingerprint},
        "split": recipe.split | {"fingerprint": recipe.split_fingerprint, "counts": split.counts()} | split.facts,
        "model": recipe.model,
        "depth": recipe.depth,
        "cut": recipe.cut,
        "views": recipe.views,
        "input": list(items.input_shape),
        "transform": recipe.transform,
        "embedding_size": model.width,
        "head": None if recipe.embedding_size is None else recipe.head,
        "batch_norm": "frozen statistics" if model.freezes_batch_norm else "trained",
        "loss": recipe.loss,
        "method": recipe.method if trained else None,
        "sampler": recipe.sampler if trained else None,
        "optimizer": recipe.optimizer if trained else None,
        "schedule": recipe.schedule if trained else None,
        "epochs": recipe.epochs if trained else 0,
        "clip_gradients": recipe.clip_gradients,
        "autocast": recipe.autocast,
        "checkpoint": chosen,
        "seed": recipe.seed,
        "versions": {"unseen": unseen.__version__, "torch": str(torch.__version__)},
    }
