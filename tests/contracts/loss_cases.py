"""Every registered loss with every miner it may have and every choice of its settings, found by iteration."""

import inspect
import types
from typing import Literal, NamedTuple, get_args, get_origin, get_type_hints

import torch

from unseen.core import registry
from unseen.core.config import build

NUM_CLASSES = 12


class Case(NamedTuple):
    """One configuration of one loss."""

    name: str
    record: tuple

    def build(self, width, num_classes=NUM_CLASSES):
        record = {"name": self.name, **dict(self.record)}
        return build(registry.loss, record, {"num_classes": num_classes, "embedding_size": width})

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
        elif get_origin(annotation) is Literal:
            cases += [Case(name, ((setting, choice),)) for choice in get_args(annotation)]
        elif annotation is bool:
            cases += [Case(name, ((setting, choice),)) for choice in (True, False)]
    return cases


CASES = [case for name in registry.loss.names() for case in cases_of(name)]


def is_deterministic(loss):
    """Whether the key plays no part in the loss: it has no miner, or one that draws nothing."""
    miner = getattr(loss, "miner", None)
    if miner is None:
        return True
    embeddings = torch.linspace(-1, 1, 16 * 4).sin().view(16, 4)
    labels = torch.arange(16) // 4
    first, *others = (miner(embeddings, labels, key=key) for key in range(5))
    return all(all(map(torch.equal, first, other)) for other in others)


def takes(loss, argument):
    """Whether the call of a loss has this argument."""
    return argument in inspect.signature(loss.forward).parameters


def is_numeric(annotation):
    """Whether a setting of this type is a number."""
    parts = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    return bool({int, float} & set(parts))
