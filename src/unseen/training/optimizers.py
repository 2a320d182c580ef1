"""Optimizers, and the parameter groups of a run."""

import inspect
from typing import Any, Protocol, TypeVar

import torch

from unseen.core.checks import check_above, check_at_least, check_between
from unseen.core.errors import ConfigError
from unseen.core.registry import optimizer
from unseen.methods import Objective

Groups = list[dict[str, Any]]
Kind = TypeVar("Kind", bound=type[torch.optim.Optimizer])


def _unguarded(kind: Kind) -> Kind:
    """Remove the decorators that keep torch's compiler out of an optimizer's methods.

    Each of them imports the whole compiler when it is first called: two seconds of every run.
    """
    for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
        setattr(kind, name, inspect.unwrap(getattr(kind, name)))
    kind.step = torch.no_grad()(inspect.unwrap(kind.step))  # type: ignore[method-assign]
    return kind


@_unguarded
class _TorchAdam(torch.optim.Adam):
    pass


@_unguarded
class _TorchAdamW(torch.optim.AdamW):
    pass


@_unguarded
class _TorchSGD(torch.optim.SGD):
    pass


class OptimizerSettings(Protocol):
    """The settings of an optimizer."""

    def build(self, groups: Groups) -> torch.optim.Optimizer:
        """The optimizer over parameter groups."""


def parameter_groups(objective: Objective, *, head_lr: float | None = None) -> Groups:
    """The model's trainable parameters, then the groups that the method and the loss declare.

    With `head_lr` the head is a group of its own, with that learning rate.

    Raises:     ConfigError for a model without a trainable parameter
    """
    trainable = [parameter for parameter in objective.model.parameters() if parameter.requires_grad]
    if not trainable:
        raise ConfigError(
            "the model has nothing to train", hint="Use an embedding size, or --loss none to score it as it is."
        )
    stated = [{key: value for key, value in group.items() if value is not None} for group in objective.own_parameters()]
    if head_lr is None:
        return [{"params": trainable}, *stated]
    in_head = {id(parameter) for parameter in objective.model.head.parameters()}
    head = {"params": [parameter for parameter in trainable if id(parameter) in in_head], "lr": head_lr}
    backbone = {"params": [parameter for parameter in trainable if id(parameter) not in in_head]}
    return [*(group for group in (backbone, head) if group["params"]), *stated]


def _can_be_fused(groups: Groups) -> bool:
    # The fused kernels exist for floating-point parameters on the CPU and on CUDA.
    return all(parameter.device.type in ("cpu", "cuda") for group in groups for parameter in group["params"])


@optimizer("adam")
class Adam:
    """Adam with L2 regularization (weight decay added to the gradient), as in the papers.

    Reference: Kingma and Ba, Adam, ICLR 2015, arXiv:1412.6980
    """

    _kind: type[torch.optim.Adam] = _TorchAdam

    def __init__(
        self,
        *,
        lr: float = 1e-5,
        weight_decay: float = 4e-4,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
    ) -> None:
        owner = type(self).__name__
        check_above(owner, "lr", lr, 0)
        check_at_least(owner, "weight_decay", weight_decay, 0)
        check_between(owner, "beta1", beta1, 0, 1)
        check_between(owner, "beta2", beta2, 0, 1)
        check_above(owner, "eps", eps, 0)
        self.lr, self.weight_decay, self.beta1, self.beta2, self.eps = lr, weight_decay, beta1, beta2, eps

    def build(self, groups: Groups) -> torch.optim.Optimizer:
        """The optimizer over parameter groups."""
        betas, is_fused = (self.beta1, self.beta2), _can_be_fused(groups)
        return self._kind(groups, lr=self.lr, betas=betas, eps=self.eps, weight_decay=self.weight_decay, fused=is_fused)


@optimizer("adamw")
class AdamW(Adam):
    """Adam with decoupled weight decay.

    Reference: Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019, arXiv:1711.05101
    """

    _kind = _TorchAdamW

    def __init__(
        self,
        *,
        lr: float = 1e-3,
        weight_decay: float = 1e-2,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(lr=lr, weight_decay=weight_decay, beta1=beta1, beta2=beta2, eps=eps)


@optimizer("sgd")
class SGD:
    """Stochastic gradient descent with momentum.

    Reference: Sutskever et al., On the importance of initialization and momentum in deep learning, ICML 2013
    """

    def __init__(self, *, lr: float = 1e-2, weight_decay: float = 1e-4, momentum: float = 0.9) -> None:
        check_above("SGD", "lr", lr, 0)
        check_at_least("SGD", "weight_decay", weight_decay, 0)
        check_between("SGD", "momentum", momentum, 0, 1)
        self.lr, self.weight_decay, self.momentum = lr, weight_decay, momentum

    def build(self, groups: Groups) -> torch.optim.Optimizer:
        """The optimizer over parameter groups."""
        return _TorchSGD(
            groups, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay, fused=_can_be_fused(groups)
        )
