"""Checkpoints that are old or new, never torn (PROMISES R1).

`checkpoint-<step>/` holds `tensors.safetensors` and `state.json`, and `manifest.json` with the sums of both. It is
written under another name, made durable and renamed: a folder of that name is whole by construction. The one before is
kept until the next is durable, and it is used, and that is said, when the newest does not verify.
"""

import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

import unseen
from unseen.core.errors import CheckpointError
from unseen.core.faults import fault
from unseen.core.files import new_folder, remove_folder, sha256_of, sweep, write_json

SCHEMA = 2
_NAME = re.compile(r"checkpoint-(\d+)")
_log = logging.getLogger("unseen")


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on: tensors by name, and a state of plain JSON values."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save_checkpoint(folder: Path, checkpoint: Checkpoint, *, config_hash: str) -> None:
    """Make a checkpoint durable, then remove all but it and the one before."""
    path = folder / f"checkpoint-{checkpoint.step}"
    with new_folder(path) as filling:
        tensors = {name: each.detach().cpu().contiguous() for name, each in checkpoint.tensors.items()}
        try:
            save_file(tensors, filling / "tensors.safetensors")
        except SafetensorError as problem:
            raise CheckpointError(f"{path.name} cannot be written: {problem}", hint="Use a disk with room.") from None
        write_json(filling / "state.json", checkpoint.state)
        manifest = {
            "schema": SCHEMA,
            "step": checkpoint.step,
            "config": config_hash,
            "versions": {
                "unseen": unseen.__version__,
                "torch": str(torch.__version__),
                "safetensors": safetensors.__version__,
            },
            "sha256": {name: sha256_of(filling / name) for name in ("tensors.safetensors", "state.json")},
        }
        write_json(filling / "manifest.json", manifest)
        fault("checkpoint.before_rename")
    fault("checkpoint.before_cleaning")
    kept = sorted(_steps(folder))[-2:]
    for step in _steps(folder):
        if step not in kept:
            remove_folder(folder / f"checkpoint-{step}")


def has_checkpoint(folder: Path) -> bool:
    """Whether a run left something to continue from; `load_checkpoint` then gives it or refuses."""
    return folder.is_dir() and bool(_steps(folder))


def load_checkpoint(folder: Path, *, config_hash: str) -> Checkpoint | None:
    """The newest checkpoint that verifies, or None when there never was one.

    Raises: `CheckpointError` when there are checkpoints and none of them verifies, or when they are another run's.
    """
    if not folder.is_dir():
        return None
    sweep(folder)
    problems = []
    for step in sorted(_steps(folder), reverse=True):
        path = folder / f"checkpoint-{step}"
        try:
            checkpoint = _read(path, config_hash)
        except CheckpointError as problem:
            problems.append(problem.message)
            _log.warning("%s; trying the checkpoint before it", problem.message)
            continue
        return checkpoint
    if problems:
        raise CheckpointError(
            f"no checkpoint in {folder} can be used ({problems[0]})",
            hint="Use another --out folder, or remove this one.",
        )
    return None


def _steps(folder: Path) -> list[int]:
    return [int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]


def _read(path: Path, config_hash: str) -> Checkpoint:
    try:
        manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
        schema, step, config, sums = (manifest[key] for key in ("schema", "step", "config", "sha256"))
        right = {name: sha256_of(path / name) == sums[name] for name in ("tensors.safetensors", "state.json")}
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise CheckpointError(f"{path.name} has no readable manifest ({type(problem).__name__})") from None
    if schema != SCHEMA:
        raise CheckpointError(f"{path.name} has schema {schema}, this version reads {SCHEMA}")
    for name, is_right in right.items():
        if not is_right:
            raise CheckpointError(f"{path.name} is damaged: {name} does not have the sum in its manifest")
    if path.name != f"checkpoint-{step}":
        raise CheckpointError(f"{path.name} is damaged: its manifest speaks of step {step}")
    if config != config_hash:
        raise CheckpointError(f"{path.name} belongs to another run (configuration {config}, not {config_hash})")
    state = json.loads((path / "state.json").read_text(encoding="utf-8"))
    return Checkpoint(step, load_file(path / "tensors.safetensors"), state)


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as named tensors and plain values."""
    tensors: dict[str, Tensor] = {}
    scalars: dict[str, Any] = {}
    for position, entries in optimizer.state_dict()["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{position}.{name}"] = value
            else:
                scalars[f"{position}.{name}"] = value
    return tensors, scalars


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], scalars: dict[str, Any]) -> None:
    """Put back what `flatten_optimizer` took out; groups and settings stay those of the run's configuration."""
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
