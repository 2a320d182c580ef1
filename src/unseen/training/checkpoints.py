"""Checkpoint folders that are complete or absent, never torn.

`checkpoint-<step>/` holds `tensors.safetensors`, `state.json`, and `manifest.json` with the checksums of both. It is
written under another name, made durable and renamed, so a folder of that name is complete. The previous checkpoint is
kept until the next one is durable; it is used, with a warning, when the newest does not verify.
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
    """The state of a run at a step: tensors by name, and plain JSON values."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save_checkpoint(folder: Path, checkpoint: Checkpoint, *, config_hash: str) -> None:
    """Make a checkpoint durable, then remove all but it and the one before."""
    path = folder / f"checkpoint-{checkpoint.step}"
    with new_folder(path) as filling:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
        try:
            save_file(tensors, filling / "tensors.safetensors")
        except SafetensorError as problem:
            raise CheckpointError(f"{path.name} cannot be written: {problem}", hint="Free some disk space.") from None
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
    for step in sorted(_steps(folder))[:-2]:
        remove_folder(folder / f"checkpoint-{step}")


def has_checkpoint(folder: Path) -> bool:
    """Whether there is a checkpoint to continue from; `load_checkpoint` then returns it or refuses it."""
    return folder.is_dir() and bool(_steps(folder))


def load_checkpoint(folder: Path, *, config_hash: str) -> Checkpoint | None:
    """The newest checkpoint that verifies, or None if there is none.

    Raises:     CheckpointError when there are checkpoints and none of them verifies, or when they are another run's
    """
    if not folder.is_dir():
        return None
    sweep(folder)
    problems = []
    for step in sorted(_steps(folder), reverse=True):
        try:
            return _read(folder / f"checkpoint-{step}", config_hash)
        except CheckpointError as problem:
            problems.append(problem.message)
            _log.warning("%s; trying the checkpoint before it", problem.message)
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
        damaged = [name for name in ("tensors.safetensors", "state.json") if sha256_of(path / name) != sums[name]]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise CheckpointError(f"{path.name} has no readable manifest ({type(problem).__name__})") from None
    if schema != SCHEMA:
        raise CheckpointError(f"{path.name} has schema {schema}, this version reads {SCHEMA}")
    if damaged:
        raise CheckpointError(f"{path.name} is damaged: {damaged[0]} does not have the checksum in its manifest")
    if path.name != f"checkpoint-{step}":
        raise CheckpointError(f"{path.name} is damaged: its manifest is of step {step}")
    if config != config_hash:
        raise CheckpointError(f"{path.name} belongs to another run (configuration {config}, not {config_hash})")
    state = json.loads((path / "state.json").read_text(encoding="utf-8"))
    return Checkpoint(step, load_file(path / "tensors.safetensors"), state)
