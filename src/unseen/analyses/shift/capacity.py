"""Backbones over the rungs of a ladder: what a larger backbone gains as training and test move apart."""

import math
import re
from dataclasses import dataclass

from unseen.analyses.shift.ladder_results import LadderResult, MethodCurve
from unseen.core.config import Record, canonical_json


@dataclass(frozen=True, eq=False)
class Backbone:
    """The mean score of a backbone's trained methods on each rung, and that of its untrained ones."""

    name: str
    methods: int
    trained: tuple[float, ...]
    untrained: tuple[float, ...]


def capacity(ladder: LadderResult, score: str) -> tuple[Backbone, ...]:
    """The backbones of a ladder's methods, sorted by name; empty where there are fewer than two.

    Backbones of one name that differ in their settings have those behind their name (`convnet base=8`). Only trained
    methods count whose loss and method every backbone was trained with, so that curves differ by the backbone alone.

    Empty:      NaN on a rung without a finished cell of one of these methods
    """
    trained: dict[str, dict[str, MethodCurve]] = {}
    untrained: dict[str, list[MethodCurve]] = {}
    models = [(curve, model) for curve in ladder.curves if (model := _model(curve))]
    names = _names([model for _, model in models])
    for curve, model in models:
        name = names[canonical_json(model)]
        if curve.is_trained:
            protocol = _protocol(curve)
            objective = canonical_json({key: protocol.get(key) for key in ("loss", "method")})
            trained.setdefault(name, {})[objective] = curve
        else:
            untrained.setdefault(name, []).append(curve)
    if len(trained) < 2:
        return ()
    first, *others = trained.values()
    shared = [objective for objective in first if all(objective in other for other in others)]
    return tuple(
        Backbone(
            name,
            len(shared),
            _mean([curves[objective] for objective in shared], score, len(ladder.rungs)),
            _mean(untrained.get(name, []), score, len(ladder.rungs)),
        )
        for name, curves in sorted(trained.items(), key=lambda item: _natural_order(item[0]))
        if shared
    )


def _natural_order(name: str) -> list[str | int]:
    """A sort key by which base=8 comes before base=16."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


def _model(curve: MethodCurve) -> Record:
    """The record of a method's backbone; empty where it is not known."""
    model = _protocol(curve).get("model")
    return dict(model) if isinstance(model, dict) and "name" in model else {}


def _names(models: list[Record]) -> dict[str, str]:
    """The name of each backbone by its record, with the settings in which backbones of that name differ."""
    by_name: dict[str, list[Record]] = {}
    for model in models:
        by_name.setdefault(str(model.get("architecture") or model["name"]), []).append(model)
    names = {}
    for name, variants in by_name.items():
        keys = dict.fromkeys(key for model in variants for key in model)
        differing = [key for key in keys if len({canonical_json({"is": model.get(key)}) for model in variants}) > 1]
        for model in variants:
            names[canonical_json(model)] = " ".join([name, *(f"{key}={model.get(key)}" for key in differing)])
    return names


def _protocol(curve: MethodCurve) -> Record:
    return next((dict(entry.rows[0].protocol) for entry in curve.entries if entry is not None), {})


def _mean(curves: list[MethodCurve], score: str, rungs: int) -> tuple[float, ...]:
    if not curves:
        return (math.nan,) * rungs
    by_rung = zip(*(curve.means(score) for curve in curves), strict=True)
    return tuple(sum(means) / len(means) for means in by_rung)
