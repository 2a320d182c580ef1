"""Splitting a backbone at a named stage: the lower part is computed once, the upper part is trained.

A backbone can be split if its forward pass is a chain of steps: those of `Backbone.steps()`, by default its named
children. Whether they are what `forward` computes is verified on an example.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unseen.core.errors import ConfigError
from unseen.core.registry import nearest
from unseen.models.backbone import Backbone, Step, channels_last

# The stage from which depth `top` trains by default: the last stage or two, most of a backbone's parameters.
_DEFAULT_CUTS = (
    (r"(tf_)?(efficientnet|mobilenetv2)\w*", "blocks.5"),
    (r"resnetv2_\w+", "stages.3"),
    (r"(wide_|legacy_seres|se)?(resnet|resnext)\w+", "layer4"),
    (r"densenet\w+", "features.denseblock4"),
    (r"(vit|deit)_(tiny|small|base)_\w+", "blocks.10"),
    (r"vit_large_\w+", "blocks.22"),
    (r"inception_v3", "Mixed_7a"),
    (r"bn_inception", "inception_5a"),
    (r"googlenet", "inception5a"),
    (r"convnet", "blocks.2"),
)


class BackbonePart(Backbone):
    """Consecutive steps of a backbone, sharing its parameters.

    Inputs are converted to channels_last as in every backbone: other memory formats use other kernels, which round
    differently.
    """

    def __init__(self, steps: Iterable[Step], backbone: Backbone) -> None:
        super().__init__()
        for name, module in steps:
            self.add_module(name.replace(".", "_"), module)
        self.width, self.has_pretrained_weights = backbone.width, backbone.has_pretrained_weights

    def forward(self, inputs: Tensor) -> Tensor:
        """Run the steps."""
        inputs = channels_last(inputs)
        for module in self.children():
            inputs = module(inputs)
        return inputs


class BackboneSplit(NamedTuple):
    """Two parts of a backbone: `upper(lower(inputs))` equals the backbone's output, bit for bit."""

    lower: BackbonePart
    upper: BackbonePart


def stage_names(backbone: Backbone) -> list[str]:
    """Return the names of a backbone's steps in order; it can be split before each of them but the first."""
    return [name for name, _ in backbone.steps()]


def split_at(backbone: Backbone, stage: str, example: Tensor) -> BackboneSplit:
    """Split a backbone before a stage; both parts share its parameters.

    "layer4" stands for the first step of that stage, "layer4.0".

    Raises:  `ConfigError` for an unknown stage, and for a backbone that is not a chain of its steps
    """
    steps = backbone.steps()
    names = [name for name, _ in steps]
    first = next((index for index, name in enumerate(names) if name == stage or name.startswith(f"{stage}.")), 0)
    owner = type(backbone).__name__
    if first == 0:
        known = names[1:]
        raise ConfigError(
            f"{owner} cannot be cut at '{stage}'{nearest(stage, known)} (its stages: {', '.join(known) or 'none'})",
            hint="Set --cut to one of them, or train with --depth frozen or --depth full.",
        )
    split = BackboneSplit(BackbonePart(steps[:first], backbone), BackbonePart(steps[first:], backbone))
    if not _is_equivalent(backbone, split, example):
        raise ConfigError(
            f"{owner} does not run its stages one after the other and cannot be cut at '{stage}'",
            hint="Train with --depth frozen or --depth full.",
        )
    return split


def sequential_steps(backbone: Backbone, example: Tensor) -> list[Step]:
    """Return steps that, run one after the other on channels_last inputs, compute what the backbone computes.

    They share its parameters. The list is empty for a backbone that is not such a chain.
    """
    steps = backbone.steps()
    return steps if steps and _is_equivalent(backbone, [step for _, step in steps], example) else []


def default_cut(architecture: str) -> str | None:
    """Return the stage at which an architecture is split by default; None if it is unknown.

    >>> default_cut("tf_efficientnet_lite0"), default_cut("resnet50"), default_cut("wren")
    ('blocks.5', 'layer4', None)
    """
    plain = architecture.partition(".")[0]  # timm appends the name of the weights after a dot
    return next((stage for pattern, stage in _DEFAULT_CUTS if re.fullmatch(pattern, plain)), None)


def _is_equivalent(backbone: nn.Module, parts: Sequence[nn.Module], example: Tensor) -> bool:
    modes = {module: module.training for module in backbone.modules()}
    for module in (backbone, *parts):
        module.eval()
    try:
        with torch.inference_mode():
            outputs = channels_last(example)
            for part in parts:
                outputs = part(outputs)
            return torch.equal(outputs, backbone(example))
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError):
        return False  # the steps do not even fit together
    finally:
        for module, was_training in modes.items():
            module.training = was_training
