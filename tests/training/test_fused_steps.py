"""The loop's steps beside those of a plain loop, for a network with frozen batch norm and a wide depthwise kernel."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from tests.helpers.small_runs import Stop, stop_at
from unseen.data import Catalogue, CatalogueDataset
from unseen.data.item_readers import ImagesInMemory
from unseen.losses import MultiSimilarity
from unseen.methods import Objective
from unseen.models import Embedder
from unseen.models.backbone import Backbone, channels_last
from unseen.samplers import SamplesPerClass
from unseen.training.job import Job
from unseen.training.loop import train
from unseen.training.optimizers import SGD, Adam
from unseen.training.schedules import Constant
from unseen.training.stream import ItemKeys, stream

STEPS, CLASSES, PER_CLASS = 20, 6, 6


class Small(Backbone):
    """A chain as in mobile networks: a stem, a depthwise kernel of 5 x 5, a kernel of 1 x 1."""

    width, has_pretrained_weights = 12, True

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            convolutions = (
                nn.Conv2d(3, 8, 3, 2, 1, bias=False),
                nn.Conv2d(8, 8, 5, padding=2, groups=8, bias=False),
                nn.Conv2d(8, 12, 1, bias=False),
            )
            layers: list[nn.Module] = []
            for convolution in convolutions:
                batch_norm = nn.BatchNorm2d(convolution.out_channels)
                for name, tensor in batch_norm.state_dict().items():
                    if name in ("weight", "running_var"):
                        nn.init.uniform_(tensor, 0.5, 1.5)
                    elif tensor.is_floating_point():
                        nn.init.normal_(tensor, std=0.2)
                layers += [convolution, batch_norm, nn.ReLU6(inplace=True)]
            self.layers = nn.Sequential(*layers)

    def forward(self, images):
        return self.layers(channels_last(images)).mean((2, 3))


def job_of(optimizer):
    """A new job of 20 steps, and its optimizer's settings."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    pixels = np.clip(60 * generator.normal(size=(CLASSES, 16, 16, 3))[labels] + 128, 0, 255)
    pixels = np.clip(pixels + 30 * generator.normal(size=pixels.shape), 0, 255).astype(np.uint8)
    catalogue = Catalogue(
        name="noise",
        reader=ImagesInMemory(pixels),
        labels=labels,
        class_names=tuple("abcdef"),
        ids=tuple(map(str, range(len(labels)))),
    )
    torch.manual_seed(5)
    model = Embedder(Small(), embedding_size=5)
    batches = SamplesPerClass(batch_size=12, per_class=3).batches(labels, seed=0)
    return Job(
        objective=Objective(model, MultiSimilarity()),
        optimizer=optimizer.build([{"params": list(model.parameters())}]),
        schedule=Constant(),
        items=CatalogueDataset(catalogue),
        indices=np.arange(len(labels)),
        labels=labels,
        batches=batches,
        epochs=-(-STEPS // batches.batches_per_epoch),
        seed=0,
        config={},
    )


def plain_loop(job, dtype):
    """The same steps without the loop: contiguous weights, every operator as it stands."""
    model, loss = job.objective.model.to(dtype).train(), job.objective.loss
    total = job.epochs * job.batches.batches_per_epoch
    for batch in stream(job.items, ItemKeys(job.batches, job.indices, job.seed, first=0, last=total)):
        job.optimizer.zero_grad()
        loss(model(batch.inputs.to(dtype)), batch.labels).backward()
        job.optimizer.step()
    return weights_of(job)


def weights_of(job):
    return {name: tensor.detach().double().clone() for name, tensor in job.objective.model.state_dict().items()}


@pytest.mark.parametrize("optimizer", [partial(SGD, lr=0.1, momentum=0.9), partial(Adam, lr=1e-3)])
def test_the_weights_after_20_steps_are_as_near_the_exact_ones_as_those_of_a_plain_loop(tmp_path, optimizer):
    exact = plain_loop(job_of(optimizer()), torch.float64)
    plain = plain_loop(job_of(optimizer()), torch.float32)
    job = job_of(optimizer())
    start = weights_of(job)
    train(job, tmp_path)
    ours = weights_of(job)
    for name, expected in exact.items():
        # Both round in float32, in another order. Neither is nearer in every tensor; a wrong gradient is far off.
        of_plain, of_ours = ((found[name] - expected).norm().item() for found in (plain, ours))
        moved = (start[name] - expected).norm().item()
        assert of_ours <= 4 * of_plain + 1e-5 * moved, name
        assert moved > 0 or name.endswith(("running_mean", "running_var", "num_batches_tracked")), name


@pytest.mark.parametrize("optimizer", [partial(SGD, lr=0.1), partial(Adam, lr=1e-3)])
def test_a_stopped_run_continues_to_the_same_bits(tmp_path, optimizer):
    whole = job_of(optimizer())
    train(whole, tmp_path / "whole")
    for step in (3, 11):
        with pytest.raises(Stop):
            train(replace(job_of(optimizer()), save_seconds=0), tmp_path / "parts", stop_at(step))
    parts = job_of(optimizer())
    train(parts, tmp_path / "parts")
    for name, tensor in whole.objective.model.state_dict().items():
        assert torch.equal(tensor, parts.objective.model.state_dict()[name]), name
