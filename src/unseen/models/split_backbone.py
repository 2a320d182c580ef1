"""Cutting a backbone at a named stage: what lies below the cut is computed once, what lies above it is trained.

A backbone that can be cut runs its steps one after the other. It states them by `steps()`, or they are its named
children, a `Sequential` among them taken apart. Whether that is really what its `forward` does is tried out on an
example before anything is built on it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unseen.core.errors import ConfigError
from unseen.core.registry import nearest

Step = tuple[str, nn.Module]

# The stage from which `top` trains where nobody states one: the last stage or two, most of a backbone's parameters.
_CUTS = (
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


class BackbonePart(nn.Sequential):
    """Neighbouring steps of a backbone, sharing its parameters; the upper part is a backbone of its own.

    Like every backbone here it puts its inputs into the layout `channels_last`: another layout is computed by other
    kernels, which round otherwise.
    """

    def __init__(self, steps: Iterable[Step], backbone: nn.Module) -> None:
        super().__init__()
        for name, module in steps:
            self.add_module(name.replace(".", "_"), module)
        self.width, self.has_pretrained_weights = backbone.width, backbone.has_pretrained_weights

    def forward(self, inputs: Tensor) -> Tensor:
        """What the steps make of the inputs."""
        return super().forward(channels_last(inputs))


class BackboneSplit(NamedTuple):
    """A backbone in two: `upper(lower(inputs))` is the backbone, bit for bit."""

    lower: BackbonePart
    upper: BackbonePart


def channels_last(inputs: Tensor) -> Tensor:
    """Images or maps with the channels of a place beside each other in memory: a third less time on a CPU."""
    return inputs.contiguous(memory_format=torch.channels_last) if inputs.ndim == 4 else inputs


def child_steps(module: nn.Module) -> list[Step]:
    """A module's named children in their order, each `Sequential` among them replaced by its own children."""
    steps: list[Step] = []
    for name, child in module.named_children():
        if type(child).forward is nn.Sequential.forward and len(child):
            steps += [(f"{name}.{inner}", step) for inner, step in child.named_children()]
        else:
            steps.append((name, child))
    return steps


def stages(backbone: nn.Module) -> list[str]:
    """The names of a backbone's steps in order; it can be cut below each of them but the first."""
    return [name for name, _ in _steps_of(backbone)]


def split_at(backbone: nn.Module, stage: str, example: Tensor) -> BackboneSplit:
    """The part of a backbone below a stage and the part that begins with it; both share its parameters.

    "layer4" stands for the first step below that name, "layer4.0".

    Raises: ConfigError for an unknown stage, and for a backbone that is not what its steps are one after the other
    """
    steps = _steps_of(backbone)
    names = [name for name, _ in steps]
    places = [place for place, name in enumerate(names) if name == stage or name.startswith(f"{stage}.")]
    owner = type(backbone).__name__
    if not places or places[0] == 0:
        known = names[1:]
        raise ConfigError(
            f"{owner} cannot be cut at '{stage}'{nearest(stage, known)} (its stages: {', '.join(known) or 'none'})",
            hint="Use --cut with one of them, --depth frozen or --depth full.",
        )
    cut = BackboneSplit(BackbonePart(steps[: places[0]], backbone), BackbonePart(steps[places[0] :], backbone))
    if not _is_whole(backbone, cut, example):
        raise ConfigError(
            f"{owner} does not run its stages one after the other and cannot be cut at '{stage}'",
            hint="Use --depth frozen or --depth full.",
        )
    return cut


def sequential_steps(backbone: nn.Module, example: Tensor) -> list[Step]:
    """A backbone as steps that, one after the other on inputs in the layout `channels_last`, are what it computes.

    They share its parameters. A backbone that is no such chain gives an empty list.
    """
    steps = _steps_of(backbone)
    return steps if steps and _is_whole(backbone, [step for _, step in steps], example) else []


def default_cut(architecture: str) -> str | None:
    """The stage at which an architecture is cut when nobody says where; None if nothing is known of it.

    >>> default_cut("tf_efficientnet_lite0"), default_cut("resnet50"), default_cut("wren")
    ('blocks.5', 'layer4', None)
    """
    plain = architecture.partition(".")[0]  # timm names sets of weights behind a point
    return next((stage for pattern, stage in _CUTS if re.fullmatch(pattern, plain)), None)


def _steps_of(backbone: nn.Module) -> list[Step]:
    return backbone.steps() if hasattr(backbone, "steps") else child_steps(backbone)


def _is_whole(backbone: nn.Module, parts: Sequence[nn.Module], example: Tensor) -> bool:
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
        return False  # steps that do not even fit together
    finally:
        for module, was_training in modes.items():
            module.training = was_training
