"""A ladder: rungs of growing distance between training and test classes, as one file that anyone can read."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unseen.core.config import Record, canonical_json
from unseen.core.errors import DataError
from unseen.core.files import read_json, write_text
from unseen.data.catalogue import Catalogue

FORMAT = "unseen ladder"
VERSION = 1
GROUPS = "groups"
"""What `settings["by"]` says of a ladder whose steps are groups of classes; one that was walked has none."""

_NOTHING_MORE = {"extra": "forbid"}


@dataclass(frozen=True)
class Measured:
    """A step: its name, classes on each side, distances of class means and, where measured, of samples."""

    __pydantic_config__ = _NOTHING_MORE
    name: str
    train: int
    test: int
    class_distance: float
    sample_distance: float | None


@dataclass(frozen=True)
class Rung:
    """A step that was chosen, with the names of its classes; validation classes are a part of the training side."""

    __pydantic_config__ = _NOTHING_MORE
    step: str
    class_distance: float
    sample_distance: float
    train: list[str]
    validation: list[str]
    test: list[str]


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The content of a ladder's file.

    ========  =========================================================================================
    data      name, record and fingerprint of the catalogue
    features  what gave the features that distances are measured in
    settings  start and walk, or that steps are groups of classes; choice of rungs, seed
    classes   class -> ids of its items
    steps     every step of the walk, the easiest first; or every group, the nearest first
    rungs     the chosen ones; rung 1 is the first
    support   class -> episode -> positions in `classes`, in the order of their shots (2, 5, 10)
    ========  =========================================================================================
    """

    __pydantic_config__ = _NOTHING_MORE
    data: dict[str, Any]
    features: dict[str, Any]
    settings: dict[str, Any]
    classes: dict[str, list[str]]
    steps: list[Measured]
    rungs: list[Rung]
    support: dict[str, list[list[int]]]

    @property
    def is_by_groups(self) -> bool:
        """Whether the steps are groups of classes and carry their names."""
        return self.settings.get("by") == GROUPS

    @property
    def hash(self) -> str:
        """The SHA-256 of the content."""
        return _hash_of(self.to_mapping())

    def to_mapping(self) -> Record:
        """The content as plain values; large parts are not copied."""
        return vars(self) | {key: [vars(each) for each in getattr(self, key)] for key in ("steps", "rungs")}


def item_ids_by_class(catalogue: Catalogue) -> dict[str, list[str]]:
    """The ids of the items of each class, in the order of the catalogue."""
    items: dict[str, list[str]] = {name: [] for name in catalogue.class_names}
    for name, label in zip(catalogue.ids, catalogue.labels.tolist(), strict=True):
        items[catalogue.class_names[label]].append(name)
    return items


def write_ladder(path: Path, ladder: Ladder) -> None:
    """Write a ladder in one step, a line for each step, rung and class."""
    content = {"format": FORMAT, "version": VERSION, "hash": ladder.hash, **ladder.to_mapping()}
    write_text(path, _in_lines(content))


def read_ladder(path: Path) -> Ladder:
    """The ladder in a file, verified.

    Raises:  DataError for what is no ladder, is of another version, was changed, or contradicts itself
    """
    from pydantic import TypeAdapter, ValidationError  # slow to import, needed only here

    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{path} is not a ladder of splits", hint="Use a file that `unseen splits build` wrote.")
    if content.get("version") != VERSION:
        raise DataError(
            f"{path} is a ladder of version {content.get('version')!r}", hint=f"Use one of version {VERSION}."
        )
    held = {key: value for key, value in content.items() if key not in ("format", "version", "hash")}
    if content.get("hash") != _hash_of(held):
        raise DataError(
            f"{path} was changed after it was written", hint="Use unseen splits build, or an unchanged copy."
        )
    try:
        ladder = TypeAdapter(Ladder).validate_python(held)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise DataError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    _check(path, ladder)
    return ladder


def rung_of(ladder: Ladder, number: int) -> Rung:
    """The rung of a number, from 1.

    Raises:  DataError for a number without a rung
    """
    if not 1 <= number <= len(ladder.rungs):
        raise DataError(f"the ladder has rungs 1 to {len(ladder.rungs)}", got=number)
    return ladder.rungs[number - 1]


def _check(path: Path, ladder: Ladder) -> None:
    for number, rung in enumerate(ladder.rungs, start=1):
        sides = [rung.train, rung.validation, rung.test]
        named = [name for side in sides for name in side]
        if len(set(named)) < len(named):
            raise DataError(f"{path}: a class stands twice on rung {number}")
        unknown = sorted(set(named) - ladder.classes.keys())
        if unknown:
            raise DataError(f"{path}: rung {number} has a class '{unknown[0]}' that the ladder does not list")
    for name, episodes in ladder.support.items():
        size = len(ladder.classes.get(name, ()))
        for positions in episodes:
            if len(set(positions)) < len(positions) or not all(0 <= position < size for position in positions):
                raise DataError(f"{path}: the support of class '{name}' names an image twice or one that is not there")


def _hash_of(content: Record) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def _in_lines(content: Record) -> str:
    """JSON with a line for each entry of each part: readable, and no line for each of a million numbers."""

    def text(value: Any) -> str:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)

    parts = []
    for key, value in content.items():
        if isinstance(value, dict) and value:
            lines = ",\n".join(f"  {text(name)}: {text(entry)}" for name, entry in value.items())
            parts.append(f"{text(key)}: {{\n{lines}\n}}")
        elif isinstance(value, list) and value:
            lines = ",\n".join(f"  {text(entry)}" for entry in value)
            parts.append(f"{text(key)}: [\n{lines}\n]")
        else:
            parts.append(f"{text(key)}: {text(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
