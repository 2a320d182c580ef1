"""The training loop."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unseen.core.config import hash_of
from unseen.core.randomness import derive, seed_torch
from unseen.data.batches import CatalogueDataset
from unseen.methods import Objective
from unseen.models import embed
from unseen.samplers import Batches, EmbeddingAwareBatches
from unseen.training.checkpoints import (
    Checkpoint,
    flatten_optimizer,
    load_checkpoint,
    restore_optimizer,
    save_checkpoint,
)
from unseen.training.guards import check_not_empty, gradient_norm, watched
from unseen.training.schedules import Schedule, apply_schedule
from unseen.training.stream import stream

Validate = Callable[[nn.Module], dict[str, float]]
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is trained, on what, and how.

    ==============  ==============================================================================================
    objective       the model, the loss and what a method adds to them
    validate        scores of the model on validation classes, called before the first step and after each epoch, so
                    that a run that only gets worse keeps its start; None keeps the last weights
    choose_by       the validation score whose best epoch gives the final weights; the start is epoch 0
    patience        epochs without a better validation score after which the run stops; None never does
    save_seconds    a checkpoint is written at the first step after this many seconds
    config          the configuration whose hash a checkpoint must carry
    ==============  ==============================================================================================
    """

    objective: Objective
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    items: CatalogueDataset
    indices: np.ndarray
    labels: np.ndarray
    batches: Batches
    epochs: int
    seed: int
    config: dict[str, Any]
    clip_gradients: float | None = None
    autocast: bool = False
    validate: Validate | None = None
    choose_by: str = "recall@1"
    patience: int | None = None
    workers: int = 0
    save_seconds: float = 30.0


@dataclass
class State:
    """Where a run stands; with the weights and the optimiser it is all that a checkpoint holds."""

    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_score: float | None = None
    best_epoch: int | None = None
    epoch_loss: float = 0.0
    empty_batches: int = 0


def train(job: Job, folder: Path, progress: Progress = lambda done, total, words: None) -> State:
    """Train the job's model in place, from the folder's last checkpoint if there is one, to its best weights."""
    epoch_length = job.batches.batches_per_epoch
    total = job.epochs * epoch_length
    objective, optimizer = job.objective, job.optimizer
    state, best = _resume(job, folder)
    named = [(name.removeprefix("model."), parameter) for name, parameter in objective.named_parameters()]
    parameters = [parameter for _, parameter in named]
    device = parameters[0].device
    position_of = torch.as_tensor(np.searchsorted(np.unique(job.labels), np.arange(job.labels.max() + 1)))
    fed = job.batches if isinstance(job.batches, EmbeddingAwareBatches) else None
    place_of = np.zeros(len(job.items), dtype=np.int64)
    place_of[job.indices] = np.arange(len(job.indices))
    saved_at, epoch_began = time.monotonic(), time.monotonic()
    progress(state.step, total, "")

    with deterministic():
        if state.step == 0 and job.validate is not None:
            best = _keep_if_best(job, state, {"epoch": 0, "step": 0, "seconds": 0.0, "loss": None}, best)
            epoch_began = time.monotonic()
        if state.step == 0 and fed is not None:
            fed.start(embed(objective.model, job.items, job.indices, workers=job.workers).numpy())
        objective.train()
        batches = stream(
            job.items,
            job.batches,
            job.indices,
            seed=job.seed,
            first=state.step,
            last=total,
            workers=job.workers,
            views=objective.views,
        )
        while state.step < total and not _out_of_patience(job, state):
            batch = next(batches)
            seed_torch(derive(job.seed, "model", state.step))
            apply_schedule(optimizer, job.schedule.factor(state.step, total))
            indices = batch.indices[: len(batch.indices) // objective.views]
            labels = position_of[batch.labels[: len(indices)]].to(device)
            key = derive(job.seed, "loss", state.step)
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=job.autocast):
                passed = objective(batch.inputs.to(device), key=key)
            embeddings, names = passed.embeddings, partial(_names, job, indices)
            optimizer.zero_grad(set_to_none=True)
            with watched(embeddings, named, step=state.step, names=names, folder=folder) as watch:
                value: Tensor = objective.value(passed, labels, key=key)
                value.backward()
                norm = watch(value, gradient_norm(parameters))
            if job.clip_gradients is not None:
                nn.utils.clip_grads_with_norm_(parameters, job.clip_gradients, norm)
            optimizer.step()
            objective.after_step(passed, key=key)
            if fed is not None:
                fed.observe(place_of[indices.numpy()], embeddings.detach().float().cpu().numpy())

            state.step += 1
            state.epoch_loss += value.item()
            state.empty_batches += objective.is_empty
            check_not_empty(state.empty_batches, state.step)
            if state.step % epoch_length == 0:
                best = _end_epoch(job, state, best, time.monotonic() - epoch_began)
                epoch_began = time.monotonic()
            if time.monotonic() - saved_at > job.save_seconds:
                save_checkpoint(folder, _checkpoint(job, state, best), config_hash=hash_of(job.config))
                saved_at = time.monotonic()
            progress(state.step, total, f"loss {value.item():.3f}")

    if best is not None:
        objective.model.load_state_dict(best)
    return state


@contextmanager
def deterministic() -> Iterator[None]:
    """Let an operator without a deterministic form raise, and leave torch's generators and settings as they were."""
    was_on = torch.are_deterministic_algorithms_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # a debugging aid that costs a pass over every tensor
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.use_deterministic_algorithms(was_on)
        torch.utils.deterministic.fill_uninitialized_memory = filled


def _end_epoch(job: Job, state: State, best: dict[str, Tensor] | None, seconds: float) -> dict[str, Tensor] | None:
    epoch = state.step // job.batches.batches_per_epoch
    row: dict[str, Any] = {"epoch": epoch, "step": state.step, "seconds": seconds}
    row["loss"] = state.epoch_loss / job.batches.batches_per_epoch
    state.epoch_loss = 0.0
    return _keep_if_best(job, state, row, best)


def _keep_if_best(
    job: Job, state: State, row: dict[str, Any], best: dict[str, Tensor] | None
) -> dict[str, Tensor] | None:
    """Validate, write the epoch's row into the history, and give the weights of the best epoch so far."""
    if job.validate is not None:
        model = job.objective.model.eval()
        row["validation"] = job.validate(model)
        job.objective.train()
        score = row["validation"][job.choose_by]
        if state.best_score is None or score > state.best_score:
            state.best_score, state.best_epoch = score, row["epoch"]
            # A copy: references to live weights would make the best epoch always the last one.
            best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    state.history.append(row)
    return best


def _out_of_patience(job: Job, state: State) -> bool:
    if job.patience is None or state.best_epoch is None or state.step % job.batches.batches_per_epoch:
        return False
    return state.step // job.batches.batches_per_epoch - state.best_epoch >= job.patience


def _names(job: Job, indices: Tensor) -> list[str]:
    return [job.items.catalogue.ids[index] for index in indices.tolist()]


def _optimizers(job: Job) -> dict[str, torch.optim.Optimizer]:
    return {"run": job.optimizer, **job.objective.optimizers()}


def _checkpoint(job: Job, state: State, best: dict[str, Tensor] | None) -> Checkpoint:
    parts = {"objective": job.objective.state_dict(), "best": best or {}, "sampler": _sampler_state(job.batches)}
    scalars = {}
    for name, optimizer in _optimizers(job).items():
        parts[f"optimizer {name}"], scalars[name] = flatten_optimizer(optimizer)
    tensors = {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
    return Checkpoint(state.step, tensors, {"run": vars(state), "optimizers": scalars})


def _sampler_state(batches: Batches) -> dict[str, Tensor]:
    state = batches.state() if isinstance(batches, EmbeddingAwareBatches) else {}
    return {name: torch.from_numpy(array) for name, array in state.items()}


def _resume(job: Job, folder: Path) -> tuple[State, dict[str, Tensor] | None]:
    checkpoint = load_checkpoint(folder, config_hash=hash_of(job.config))
    if checkpoint is None:
        return State(), None
    parts: defaultdict[str, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor in checkpoint.tensors.items():
        part, _, rest = name.partition("/")
        parts[part][rest] = tensor
    job.objective.load_state_dict(parts["objective"])
    for name, optimizer in _optimizers(job).items():
        restore_optimizer(optimizer, parts[f"optimizer {name}"], checkpoint.state["optimizers"][name])
    if isinstance(job.batches, EmbeddingAwareBatches):
        job.batches.restore({name: tensor.numpy() for name, tensor in parts["sampler"].items()})
    return State(**checkpoint.state["run"]), parts["best"] or None
