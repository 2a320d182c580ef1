"""Argument checks; every failure is one sentence: `Margin: beta must be a finite number > 0; got -1`."""

import math
from collections.abc import Collection
from typing import TypeGuard

from unseen.core.errors import ConfigError


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def check_above(owner: str, name: str, value: object, bound: float) -> None:
    """Require a finite number > bound.

    >>> check_above("Margin", "margin", 0, 0)
    Traceback (most recent call last):
    ...
    unseen.core.errors.ConfigError: Margin: margin must be a finite number > 0; got 0
    """
    if not _is_number(value) or value <= bound:
        raise ConfigError(f"{owner}: {name} must be a finite number > {bound}", got=value)


def check_at_least(owner: str, name: str, value: object, bound: float) -> None:
    """Require a finite number >= bound."""
    if not _is_number(value) or value < bound:
        raise ConfigError(f"{owner}: {name} must be a finite number >= {bound}", got=value)


def check_between(owner: str, name: str, value: object, low: float, high: float) -> None:
    """Require a finite number in [low, high]."""
    if not _is_number(value) or not low <= value <= high:
        raise ConfigError(f"{owner}: {name} must be a number from {low} to {high}", got=value)


def check_count(owner: str, name: str, value: object, at_least: int = 1) -> None:
    """Require an integer >= at_least."""
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ConfigError(f"{owner}: {name} must be an integer >= {at_least}", got=value)


def check_choice(owner: str, name: str, value: object, choices: Collection[object]) -> None:
    """Require one of the choices."""
    if value not in choices:
        raise ConfigError(f"{owner}: {name} must be one of {', '.join(map(repr, choices))}", got=value)
