"""The training loop."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unseen.core.machine.memory import keep_freed_memory
from unseen.core.progress import Progress, no_progress
from unseen.core.randomness import derive, seed_torch
from unseen.data.batches import ItemKey
from unseen.models import embed
from unseen.models.compiled_backbone import CompiledBackbone
from unseen.models.embedder import device_of
from unseen.models.fused_convolutions import fused_convolutions
from unseen.samplers import EmbeddingAwareBatches
from unseen.training.blending import Blend
from unseen.training.guards import check_not_empty, gradient_norm, watched
from unseen.training.head_first import HeadFirst
from unseen.training.job import Job, State
from unseen.training.resume import Weights, resume_run, save_run
from unseen.training.schedules import apply_schedule
from unseen.training.stream import ItemKeys, stream


def train(job: Job, folder: Path, progress: Progress = no_progress) -> State:
    """Train the job's model in place to its best weights; a checkpoint in the folder is continued."""
    keep_freed_memory()
    objective, optimizer, epoch_length = job.objective, job.optimizer, job.batches.batches_per_epoch
    total = job.total_steps
    state, best = resume_run(job, folder)
    named = [(name.removeprefix("model."), parameter) for name, parameter in objective.named_parameters()]
    parameters = [parameter for _, parameter in named]
    device = parameters[0].device
    class_of_label = torch.as_tensor(np.searchsorted(np.unique(job.labels), np.arange(job.labels.max() + 1)))
    sampler = job.batches if isinstance(job.batches, EmbeddingAwareBatches) else None
    row_of_item = np.zeros(len(job.items), dtype=np.int64)
    row_of_item[job.indices] = np.arange(len(job.indices))
    head_first = HeadFirst(objective.model.backbone, job.head_epochs * epoch_length)
    saved_at, epoch_began = time.monotonic(), time.monotonic()
    progress(state.step, total, "")

    with deterministic():
        if state.step == 0 and job.validate is not None:
            best = _end_epoch(job, state, best, seconds=0.0)
            epoch_began = time.monotonic()
        if state.step == 0 and sampler is not None:
            rows = embed(objective.model, job.items, job.indices, engine="torch", workers=job.workers)
            sampler.start(rows.numpy())
        objective.train()
        faster = _faster_forward(job)
        keys = ItemKeys(job.batches, job.indices, job.seed, first=state.step, last=total, views=objective.views)
        batches = stream(job.items, keys, workers=job.workers)
        while state.step < total and not _is_out_of_patience(job, state):
            batch = next(batches)
            seed_torch(derive(job.seed, "model", state.step))
            head_first.set_phase(state.step)
            apply_schedule(optimizer, head_first.factor(job.schedule, state.step, total))
            indices = batch.indices[: len(batch.indices) // objective.views]
            labels = class_of_label[batch.labels[: len(indices)]].to(device)
            key = derive(job.seed, "loss", state.step)
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=job.autocast), faster:
                output = objective(batch.inputs.to(device), key=key)
            embeddings, names = output.embeddings, partial(_names, job, indices)
            optimizer.zero_grad(set_to_none=True)
            with watched(embeddings, named, step=state.step, names=names, folder=folder) as watch:
                value: Tensor = objective.value(output, labels, key=key)
                value.backward()
                norm = watch(value, gradient_norm(parameters))
            if job.clip_gradients is not None:
                nn.utils.clip_grads_with_norm_(parameters, job.clip_gradients, norm)
            optimizer.step()
            objective.after_step(output, key=key)
            if job.average is not None:
                job.average.update(state.step + 1)
            if sampler is not None:
                sampler.observe(row_of_item[indices.numpy()], embeddings.detach().float().cpu().numpy())

            state.step += 1
            state.epoch_loss += value.item()
            state.empty_batches += objective.is_empty
            check_not_empty(state.empty_batches, state.step)
            if state.step % epoch_length == 0:
                best = _end_epoch(job, state, best, seconds=time.monotonic() - epoch_began)
                epoch_began = time.monotonic()
            if time.monotonic() - saved_at > job.save_seconds:
                save_run(job, state, best, folder)
                saved_at = time.monotonic()
            progress(state.step, total, f"loss {value.item():.3f}")

    head_first.set_phase(total)
    final = best if best is not None or job.average is None else job.average.weights
    if final is not None:
        objective.model.load_state_dict(final)
    if job.blend is not None:
        state.blend = _blend(job, job.blend, state)
    return state


@contextmanager
def deterministic() -> Iterator[None]:
    """Refuse operators without a deterministic form; torch's generators and settings are restored afterwards."""
    # The setting of `use_deterministic_algorithms`, which imports torch's compiler: 2 s of every run.
    mode = torch.get_deterministic_debug_mode()
    settings: Any = torch.utils.deterministic  # its attribute is a property that the stubs do not know
    filled = settings.fill_uninitialized_memory
    torch.set_deterministic_debug_mode("error")
    settings.fill_uninitialized_memory = False  # a debugging aid that costs a pass over every tensor
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        settings.fill_uninitialized_memory = filled


def _faster_forward(job: Job) -> AbstractContextManager[object]:
    """A context that makes each forward pass faster."""
    model = job.objective.model
    device = device_of(model)
    if job.compile:
        return CompiledBackbone(model.backbone)
    if job.autocast:
        return nullcontext()  # sums of rounded products would decide the gradients of folded batch norms
    return fused_convolutions(model, job.items[ItemKey(int(job.indices[0]), None)].inputs.to(device))


def _end_epoch(job: Job, state: State, best: Weights | None, *, seconds: float) -> Weights | None:
    """Validate, append the epoch's row to the history, and return the best weights so far; epoch 0 has no loss."""
    epoch_length = job.batches.batches_per_epoch
    loss = state.epoch_loss / epoch_length if state.step else None
    row: dict[str, Any] = {"epoch": state.step // epoch_length, "step": state.step, "seconds": seconds, "loss": loss}
    state.epoch_loss = 0.0
    if job.validate is not None:
        # "auto" blends with the start, which is therefore no candidate of its own.
        is_candidate = state.step > 0 or job.blend is None or job.blend.share != "auto"
        with nullcontext() if job.average is None else job.average.applied():
            model = job.objective.model.eval()
            row["validation"] = job.validate(model)
            job.objective.train()
            score = row["validation"][job.choose_by]
            if is_candidate and (state.best_score is None or score > state.best_score):
                state.best_score, state.best_epoch = score, row["epoch"]
                # A copy: references to live weights would make the best epoch always the last one.
                best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    state.history.append(row)
    return best


def _is_out_of_patience(job: Job, state: State) -> bool:
    epoch, rest = divmod(state.step, job.batches.batches_per_epoch)
    if job.patience is None or state.best_epoch is None or rest:
        return False
    return epoch - max(state.best_epoch, job.head_epochs) >= job.patience


def _blend(job: Job, blend: Blend, state: State) -> dict[str, Any]:
    """Blend the final weights with the start; what was validated during training is not validated again."""
    known = {}
    if job.validate is not None and state.best_score is not None:
        known = {0.0: state.history[0]["validation"][job.choose_by], 1.0: state.best_score}

    def score_of(model: nn.Module) -> float:
        assert job.validate is not None, "only scores choose a share"
        return job.validate(model)[job.choose_by]

    with deterministic():
        return blend.apply(score_of, known=known)


def _names(job: Job, indices: Tensor) -> list[str]:
    return [job.items.catalogue.ids[index] for index in indices.tolist()]
