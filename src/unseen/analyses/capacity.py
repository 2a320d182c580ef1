"""Capacity: the same ladder for several backbones, a line for each."""

import math
import re
from dataclasses import dataclass

from unseen.analyses.generalisation import LadderResult, MethodCurve
from unseen.core.config import Record, canonical_json


@dataclass(frozen=True, eq=False)
class Backbone:
    """A backbone over the rungs: the mean of its trained methods, and the mean of what it gives without training."""

    name: str
    methods: int
    trained: tuple[float, ...]
    untrained: tuple[float, ...]


def capacity(climb: LadderResult, score: str) -> tuple[Backbone, ...]:
    """The backbones of a ladder's methods by name; nothing where there are fewer than two.

    Two backbones of one name differ by their settings, which then stand behind the name (`convnet base=8`). Only
    trained methods count whose loss and method every backbone was trained with, so that lines differ by the backbone
    alone. Its un-trained line is the mean of its un-trained methods.

    Empty:      a rung without a finished cell of one of these methods is not a number
    """
    groups: dict[str, dict[str, MethodCurve]] = {}
    untrained: dict[str, list[MethodCurve]] = {}
    names = _names([model for course in climb.courses if (model := _model(course))])
    for course in climb.courses:
        protocol = _protocol(course)
        model = _model(course)
        if not model:
            continue
        name = names[canonical_json(model)]
        if course.is_trained:
            what = canonical_json({key: protocol.get(key) for key in ("loss", "method")})
            groups.setdefault(name, {})[what] = course
        else:
            untrained.setdefault(name, []).append(course)
    if len(groups) < 2:
        return ()
    first, *others = groups.values()
    shared = [what for what in first if all(what in other for other in others)]
    return tuple(
        Backbone(
            name,
            len(shared),
            _mean([own[what] for what in shared], score, len(climb.steps)),
            _mean(untrained.get(name, []), score, len(climb.steps)),
        )
        for name, own in sorted(groups.items(), key=lambda item: _in_order(item[0]))
        if shared
    )


def _in_order(name: str) -> list[str | int]:
    """What names sort by: numbers in them count as numbers, so that base=8 comes before base=16."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


def _model(course: MethodCurve) -> Record:
    """The record of a course's backbone; empty where it is not known."""
    model = _protocol(course).get("model")
    return dict(model) if isinstance(model, dict) and "name" in model else {}


def _names(models: list[Record]) -> dict[str, str]:
    """What each backbone is called: its name, and the settings in which those of one name differ."""
    alike: dict[str, list[Record]] = {}
    for model in models:
        alike.setdefault(str(model.get("architecture") or model["name"]), []).append(model)
    names = {}
    for name, own in alike.items():
        keys = dict.fromkeys(key for model in own for key in model)
        differing = [key for key in keys if len({canonical_json({"is": model.get(key)}) for model in own}) > 1]
        for model in own:
            names[canonical_json(model)] = " ".join([name, *(f"{key}={model.get(key)}" for key in differing)])
    return names


def _protocol(course: MethodCurve) -> Record:
    return next((dict(entry.rows[0].protocol) for entry in course.entries if entry is not None), {})


def _mean(courses: list[MethodCurve], score: str, rungs: int) -> tuple[float, ...]:
    if not courses:
        return (math.nan,) * rungs
    columns = zip(*(course.means(score) for course in courses), strict=True)
    return tuple(sum(column) / len(column) for column in columns)
