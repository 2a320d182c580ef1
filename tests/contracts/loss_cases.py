"""Every registered loss with every miner it may have and every choice of its settings, found by iteration."""

import inspect
import types
from typing import Literal, NamedTuple, get_args, get_origin, get_type_hints

import torch

from unseen.core import registry
from unseen.core.config import build
from unseen.losses import Angular, NPair, Quadruplet

NUM_CLASSES = 12

HELD_WEIGHTS = {
    "circle": "its pair weights are constants for the gradient; tests/losses/test_circle.py checks it",
    "hap2s:detach_weights=True": "the option says so; tests/losses/test_hap2s.py checks it",
}
"""Losses whose gradient is, by definition, not that of their value, and why."""

SILENT = {"lifted_structure:miner=semi_hard": "it has no margin, so a negative farther than the positive never pushes"}
"""Losses that have no gradient on the joined batch of tests/distributed, by definition, and why."""

STATEFUL = {"cross_batch_memory": "training advances its queue; tests/losses/test_cross_batch_memory.py checks that"}
"""Losses whose value depends on the batches before, and why: built in evaluation mode, which changes nothing."""

NEEDED = {"pair_loss": "binomial_pair", "uncertainty": "kl", "loss": "contrastive"}
"""Components that a loss around another loss cannot do without; each case may name others."""


class Case(NamedTuple):
    """One configuration of one loss."""

    name: str
    record: tuple

    def build(self, width, num_classes=NUM_CLASSES):
        needed = {key: name for key, name in NEEDED.items() if key in settings_of(registry.loss[self.name])}
        record = {"name": self.name, **needed, **dict(self.record)}
        made = build(registry.loss, record, {"num_classes": num_classes, "embedding_size": width})
        return made.eval() if self.name in STATEFUL else made

    def __str__(self):
        return ":".join([self.name, *(f"{key}={value}" for key, value in self.record)])


def settings_of(component):
    """Name -> annotation of a component's settings."""
    hints = get_type_hints(component.__init__)
    return {name: hints[name] for name in inspect.signature(component).parameters}


def cases_of(name):
    """The loss as it is, then with each miner, then with each choice of each setting that offers choices."""
    cases = [Case(name, ())]
    for setting, annotation in settings_of(registry.loss[name]).items():
        if setting == "miner":
            cases += [Case(name, (("miner", miner),)) for miner in registry.miner.names()]
        elif setting == "pair_loss":
            pair_losses = [other for other in registry.loss.names() if hasattr(registry.loss[other], "terms")]
            cases += [Case(name, (("pair_loss", other),)) for other in pair_losses]
        elif setting == "uncertainty":
            cases += [Case(name, (("uncertainty", other),)) for other in registry.uncertainty.names()]
        elif get_origin(annotation) is Literal:
            cases += [Case(name, ((setting, choice),)) for choice in get_args(annotation)]
        elif annotation is bool:
            cases += [Case(name, ((setting, choice),)) for choice in (True, False)]
    return cases


CASES = [case for name in registry.loss.names() for case in cases_of(name)]


def rotation_of(name, rotation):
    """The rotation itself; for SNR, a variance over coordinates, what of it keeps the direction (1, ..., 1)."""
    if name != "snr":
        return rotation
    basis = torch.linalg.qr(torch.cat((torch.ones_like(rotation[:, :1]), rotation[:, 1:]), 1)).Q
    inner = torch.linalg.qr(rotation[1:, 1:]).Q
    return basis @ torch.block_diag(torch.ones_like(rotation[:1, :1]), inner) @ basis.T


def is_deterministic(loss):
    """Whether the key plays no part in the loss: it has no miner, or one that draws nothing."""
    if isinstance(loss, (Angular, NPair)):
        return False  # draws a positive for each anchor, with any miner
    miner = getattr(loss, "miner", None)
    if miner is None:
        return True
    if isinstance(loss, Quadruplet) and not hasattr(miner, "masks"):
        return False  # draws a fourth sample for each triplet, with any miner of triplets
    embeddings = torch.linspace(-1, 1, 16 * 4).sin().view(16, 4)
    labels = torch.arange(16) // 4
    first, *others = (miner(embeddings, labels, key=key) for key in range(5))
    return all(all(map(torch.equal, first, other)) for other in others)


def takes(loss, argument):
    """Whether the call of a loss has this argument, for anything but None."""
    parameter = inspect.signature(loss.forward).parameters.get(argument)
    return parameter is not None and parameter.annotation is not None


def is_numeric(annotation):
    """Whether a setting of this type is a number."""
    parts = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    return bool({int, float} & set(parts))
