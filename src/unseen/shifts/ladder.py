"""A ladder: splits of growing distance between training and test classes, kept as one JSON file."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unseen.core.config import Record, canonical_json
from unseen.core.errors import DataError
from unseen.core.files import read_json, write_text
from unseen.data.catalogue import Catalogue

FORMAT = "unseen ladder"
VERSION = 1
GROUPS = "groups"
"""The value of `settings["by"]` in a ladder whose steps are groups of classes; a ladder of swaps has none."""

_FORBID_EXTRA = {"extra": "forbid"}


@dataclass(frozen=True, eq=False)
class LadderSource:
    """What a ladder is built on: a catalogue and a feature row for each of its items.

    ``data`` is the record that loads the catalogue, ``made_by`` the settings that made the features; both are kept in
    the ladder.

    Raises:  DataError for features that do not have a row for each item
    """

    catalogue: Catalogue
    features: NDArray[np.floating]
    data: Record | None = None
    made_by: Record | None = None

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or len(self.features) != len(self.catalogue):
            raise DataError(
                f"{self.catalogue.describe()}: features must have a row for each item", got=self.features.shape
            )


@dataclass(frozen=True)
class StepRecord:
    """A step: its name, classes on each side, distances of class means and, where measured, of samples."""

    __pydantic_config__ = _FORBID_EXTRA
    name: str
    train: int
    test: int
    class_distance: float
    sample_distance: float | None


@dataclass(frozen=True)
class Rung:
    """A step that is used as a split, with the names of its classes; validation classes belong to the training side."""

    __pydantic_config__ = _FORBID_EXTRA
    step: str
    class_distance: float
    sample_distance: float
    train: list[str]
    validation: list[str]
    test: list[str]


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The content of a ladder file.

    ========  =========================================================================================
    data      name, record and fingerprint of the catalogue
    features  number of dimensions, and what made the features that distances are measured in
    settings  start and schedule of swaps ("walk"), or that steps are groups of classes; choice of rungs, seed
    classes   class -> ids of its items
    steps     every step, the easiest first; for groups the nearest first
    rungs     the steps used as splits; rung 1 is the first
    support   class -> episode -> positions in `classes`, in the order of their shots (2, 5, 10)
    ========  =========================================================================================
    """

    __pydantic_config__ = _FORBID_EXTRA
    data: Record
    features: Record
    settings: Record
    classes: dict[str, list[str]]
    steps: list[StepRecord]
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
        return vars(self) | {key: [vars(entry) for entry in getattr(self, key)] for key in ("steps", "rungs")}


def item_ids_by_class(catalogue: Catalogue) -> dict[str, list[str]]:
    """The ids of the items of each class, in the order of the catalogue."""
    items: dict[str, list[str]] = {name: [] for name in catalogue.class_names}
    for name, label in zip(catalogue.ids, catalogue.labels.tolist(), strict=True):
        items[catalogue.class_names[label]].append(name)
    return items


def write_ladder(path: Path, ladder: Ladder) -> None:
    """Write a ladder atomically, with a line for each step, rung and class."""
    content = {"format": FORMAT, "version": VERSION, "hash": ladder.hash, **ladder.to_mapping()}
    write_text(path, _in_lines(content))


def read_ladder(path: Path) -> Ladder:
    """The ladder in a file, verified.

    Raises:  DataError for a file that is no ladder, has another version, was changed, or is inconsistent
    """
    from pydantic import TypeAdapter, ValidationError  # slow to import, needed only here

    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{path} is not a ladder of splits", hint="`unseen splits build` writes one.")
    if content.get("version") != VERSION:
        raise DataError(
            f"{path} is a ladder of version {content.get('version')!r}",
            hint=f"This version of unseen reads version {VERSION}.",
        )
    body = {key: value for key, value in content.items() if key not in ("format", "version", "hash")}
    if content.get("hash") != _hash_of(body):
        raise DataError(
            f"{path} was changed after it was written",
            hint="Use an unchanged copy, or build it again with `unseen splits build`.",
        )
    try:
        ladder = TypeAdapter(Ladder).validate_python(body)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise DataError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    _check(path, ladder)
    return ladder


def _check(path: Path, ladder: Ladder) -> None:
    for number, rung in enumerate(ladder.rungs, start=1):
        sides = [rung.train, rung.validation, rung.test]
        names = [name for side in sides for name in side]
        if len(set(names)) < len(names):
            raise DataError(f"{path}: a class occurs twice on rung {number}")
        unknown = sorted(set(names) - ladder.classes.keys())
        if unknown:
            raise DataError(f"{path}: rung {number} has a class '{unknown[0]}' that the ladder does not list")
    for name, episodes in ladder.support.items():
        size = len(ladder.classes.get(name, ()))
        for positions in episodes:
            if len(set(positions)) < len(positions) or not all(0 <= position < size for position in positions):
                raise DataError(
                    f"{path}: the support of class '{name}' names an image twice or one that does not exist"
                )


def _hash_of(content: Record) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def _in_lines(content: Record) -> str:
    """JSON with a line for each entry of each part: readable, without a line for each of a million numbers."""

    def text(value: object) -> str:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)

    def block(value: object) -> str:
        if not value or not isinstance(value, dict | list):
            return text(value)
        if isinstance(value, list):
            return "[\n  " + ",\n  ".join(text(entry) for entry in value) + "\n]"
        return "{\n  " + ",\n  ".join(f"{text(name)}: {text(entry)}" for name, entry in value.items()) + "\n}"

    return "{\n" + ",\n".join(f"{text(key)}: {block(value)}" for key, value in content.items()) + "\n}\n"
