"""Learning-rate schedules: pure functions of the step, without a state to save."""

import math
from collections.abc import Sequence
from typing import Protocol

import torch

from unseen.core.checks import check_between, check_count
from unseen.core.registry import schedule


class Schedule(Protocol):
    """A factor on every group's learning rate."""

    def factor(self, step: int, total: int) -> float:
        """The factor at a step of a run of `total` steps."""


def warmed_up(step: int, warmup: int) -> float:
    """Linear from 1/warmup to 1 over the first `warmup` steps.

    >>> [warmed_up(step, 4) for step in (0, 1, 3, 9)]
    [0.25, 0.5, 1.0, 1.0]
    """
    return min(1.0, (step + 1) / warmup) if warmup else 1.0


@schedule("constant")
class Constant:
    """A constant learning rate, after an optional warm-up."""

    def __init__(self, *, warmup: int = 0) -> None:
        check_count("Constant", "warmup", warmup, at_least=0)
        self.warmup = warmup

    def factor(self, step: int, total: int) -> float:
        """The factor at a step."""
        return warmed_up(step, self.warmup)


@schedule("cosine")
class Cosine:
    """Cosine annealing from 1 to `floor`, after an optional warm-up.

    Reference: Loshchilov and Hutter, SGDR, ICLR 2017, arXiv:1608.03983
    """

    def __init__(self, *, warmup: int = 0, floor: float = 0.0) -> None:
        check_count("Cosine", "warmup", warmup, at_least=0)
        check_between("Cosine", "floor", floor, 0, 1)
        self.warmup, self.floor = warmup, floor

    def factor(self, step: int, total: int) -> float:
        """The factor at a step."""
        share = min(1.0, max(0, step - self.warmup) / max(1, total - self.warmup))
        return warmed_up(step, self.warmup) * (self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * share)))


@schedule("step")
class Step:
    """The learning rate is multiplied by `decay` at each share `at` of the run, after an optional warm-up."""

    def __init__(self, *, at: Sequence[float] = (0.6, 0.85), decay: float = 0.1, warmup: int = 0) -> None:
        for share in at:
            check_between("Step", "at", share, 0, 1)
        check_between("Step", "decay", decay, 0, 1)
        check_count("Step", "warmup", warmup, at_least=0)
        self.at, self.decay, self.warmup = tuple(at), decay, warmup

    def factor(self, step: int, total: int) -> float:
        """The factor at a step."""
        passed = sum(step >= share * total for share in self.at)
        return warmed_up(step, self.warmup) * self.decay**passed


def apply_schedule(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set every group's learning rate to its own base rate times the factor."""
    for group in optimizer.param_groups:
        group["lr"] = group.setdefault("base_lr", group["lr"]) * factor
