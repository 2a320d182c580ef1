"""Capacity: the same ladder for several backbones, a line for each."""

import math
from dataclasses import dataclass

from unseen.core.config import Record, canonical_json
from unseen.reports.generalisation import Climb, Course


@dataclass(frozen=True, eq=False)
class Backbone:
    """A backbone over the rungs: the mean of its trained methods, and the mean of what it gives without training."""

    name: str
    methods: int
    trained: tuple[float, ...]
    untrained: tuple[float, ...]


def capacity(climb: Climb, score: str) -> tuple[Backbone, ...]:
    """The backbones of a ladder's methods by name; nothing where there are fewer than two.

    Only trained methods count whose loss and method every backbone was trained with, so that lines differ by the
    backbone alone. Its un-trained line is the mean of its un-trained methods.

    Empty:      a rung without a finished cell of one of these methods is not a number
    """
    groups: dict[str, dict[str, Course]] = {}
    untrained: dict[str, list[Course]] = {}
    for course in climb.courses:
        protocol = _protocol(course)
        model = protocol.get("model")
        if not isinstance(model, dict) or "name" not in model:
            continue
        name = str(model.get("architecture") or model["name"])
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
        for name, own in sorted(groups.items())
        if shared
    )


def _protocol(course: Course) -> Record:
    return next((dict(entry.rows[0].protocol) for entry in course.entries if entry is not None), {})


def _mean(courses: list[Course], score: str, rungs: int) -> tuple[float, ...]:
    if not courses:
        return (math.nan,) * rungs
    columns = zip(*(course.means(score) for course in courses), strict=True)
    return tuple(sum(column) / len(column) for column in columns)
