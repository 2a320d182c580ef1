"""What each process of the gradient test does: its share of the joined batch, all losses, gradients to a file."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from torch import distributed, multiprocessing

from tests.contracts.loss_cases import CASES
from tests.losses.loops import grad
from unseen.core.distributed import average_gradients, gather_with_gradient
from unseen.core.randomness import torch_generator

SAMPLES, INPUT, WIDTH, STEPS = 13, 7, 6, 20


def joined_batch():
    generator = torch_generator(0)
    labels = torch.arange(SAMPLES) % 4
    inputs = torch.randn(4, INPUT, generator=generator, dtype=torch.float64)[labels]
    return inputs + torch.randn(SAMPLES, INPUT, generator=generator, dtype=torch.float64), labels


def gradients_and_weights(case, inputs, labels, steps):
    """Gradients of the first step and weights after the last, of a linear backbone and of the loss's own parameters."""
    weight = torch.randn(INPUT, WIDTH, generator=torch_generator(1), dtype=torch.float64).requires_grad_()
    loss = case.build(WIDTH).double().train()
    found = {}
    joined_labels = gather_with_gradient(labels)
    for step in range(steps):
        embeddings = inputs @ weight
        embeddings.retain_grad()
        value = loss(gather_with_gradient(embeddings), joined_labels, key=step)
        value.backward()
        average_gradients([weight, *loss.parameters()])
        if step == 0:
            found["embeddings"] = grad(embeddings).clone()
            found["weight"] = grad(weight).clone()
            found |= {f"own {name}": grad(parameter).clone() for name, parameter in loss.named_parameters()}
        with torch.no_grad():
            for parameter in [weight, *loss.parameters()]:
                parameter -= 0.02 * grad(parameter)
                parameter.grad = None
    found["weight after all steps"] = weight.detach()
    return found | {f"own {name} after all steps": p.detach() for name, p in loss.named_parameters()}


def steps_of(case, sizes=None):
    """20 for each loss as it is and with distance-weighted mining, where no part is empty; else gradients only."""
    is_trained = not case.record or dict(case.record).get("miner") == "distance"
    return STEPS if is_trained and 0 not in (sizes or ()) else 1


def _work(rank, splits, folder):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=len(splits[0]),
        timeout=timedelta(seconds=120),
    )
    results = {}
    for sizes in splits:
        start = sum(sizes[:rank])
        inputs, labels = (part[start : start + sizes[rank]] for part in joined_batch())
        for case in CASES:
            for name, value in gradients_and_weights(case, inputs, labels, steps_of(case, sizes)).items():
                results[f"{sizes}/{case}/{name}"] = value.numpy()
    np.savez(Path(folder) / f"rank{rank}.npz", **{key.replace("/", "|"): value for key, value in results.items()})
    distributed.destroy_process_group()


def run(splits, folder):
    """All splits of the batch over one pool of processes; gives for each rank its results by name."""
    world = len(splits[0])
    multiprocessing.spawn(_work, args=(splits, str(folder)), nprocs=world)
    results = []
    for rank in range(world):
        with np.load(Path(folder) / f"rank{rank}.npz", allow_pickle=False) as file:
            results.append({key.replace("|", "/"): torch.from_numpy(file[key]) for key in file.files})
    return results
