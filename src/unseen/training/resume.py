"""The whole state of a training run as one checkpoint, and back."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unseen.core.config import hash_of
from unseen.samplers import EmbeddingAwareBatches
from unseen.training.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from unseen.training.job import Job, State

Weights = dict[str, Tensor]


def save_run(job: Job, state: State, best: Weights | None, folder: Path) -> None:
    """Write a checkpoint of everything that the run needs to go on; `best` are the weights of the best epoch."""
    rows = job.batches.state() if isinstance(job.batches, EmbeddingAwareBatches) else {}
    sampler = {name: torch.from_numpy(array) for name, array in rows.items()}
    parts = {"objective": job.objective.state_dict(), "best": best or {}, "sampler": sampler}
    parts["average"] = {} if job.average is None else job.average.weights
    parts["start"] = {} if job.blend is None else job.blend.start
    scalars = {}
    for name, optimizer in _optimizers(job).items():
        parts[f"optimizer {name}"], scalars[name] = flatten_optimizer(optimizer)
    tensors = {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
    checkpoint = Checkpoint(state.step, tensors, {"run": vars(state), "optimizers": scalars})
    save_checkpoint(folder, checkpoint, config_hash=hash_of(job.config))


def resume_run(job: Job, folder: Path) -> tuple[State, Weights | None]:
    """Restore the job from the last checkpoint, if there is one; returns its state and the best weights so far."""
    checkpoint = load_checkpoint(folder, config_hash=hash_of(job.config))
    if checkpoint is None:
        return State(), None
    parts: defaultdict[str, Weights] = defaultdict(dict)
    for key, tensor in checkpoint.tensors.items():
        part, _, name = key.partition("/")
        parts[part][name] = tensor
    job.objective.load_state_dict(parts["objective"])
    for name, optimizer in _optimizers(job).items():
        restore_optimizer(optimizer, parts[f"optimizer {name}"], checkpoint.state["optimizers"][name])
    if job.average is not None:
        job.average.restore(parts["average"])
    if job.blend is not None:
        job.blend.restore(parts["start"])
    if isinstance(job.batches, EmbeddingAwareBatches):
        job.batches.restore({name: tensor.numpy() for name, tensor in parts["sampler"].items()})
    return State(**checkpoint.state["run"]), parts["best"] or None


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> tuple[Weights, dict[str, object]]:
    """An optimizer's state as named tensors and plain values."""
    state = optimizer.state_dict()["state"]
    values = {f"{position}.{name}": value for position, entry in state.items() for name, value in entry.items()}
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    return tensors, {name: value for name, value in values.items() if name not in tensors}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Weights, scalars: Mapping[str, object]) -> None:
    """Load what `flatten_optimizer` returned; groups and settings stay those of the run's configuration."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **scalars}.items():
        position, _, name = key.partition(".")
        state.setdefault(int(position), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, entries in optimizer.state.items():
        for name, value in entries.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                # In the parameter's own memory layout: fused kernels walk both side by side.
                entries[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def _optimizers(job: Job) -> dict[str, torch.optim.Optimizer]:
    return {"run": job.optimizer, **job.objective.optimizers()}
