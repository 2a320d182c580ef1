"""The scores of one evaluation: numbers by name, with what each means and what was counted."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from rich.table import Table

from unseen.core.checks import check_count
from unseen.core.console import table
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest, score

# The order in which people read them; what others register follows by name.
_FIRST = ("recall", "precision", "r_precision", "map@r", "map@c", "map@c_printed", "map@1000", "ap", "nmi", "f1")


@dataclass(frozen=True, kw_only=True)
class Scores(Mapping[str, float]):
    """A read-only mapping from the name of a score to its value.

    ==========================  ======================================================================
    definitions                 for each score: what it is, with tie rule or clustering engine
    queries, gallery            number of queries, and of items they are compared with
    classes                     number of classes in the evaluated set
    queries_without_positives   queries whose class nobody else in the gallery has
    ==========================  ======================================================================
    """

    numbers: Mapping[str, float]
    definitions: Mapping[str, str]
    queries: int
    gallery: int
    classes: int
    queries_without_positives: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", MappingProxyType(dict(self.numbers)))
        object.__setattr__(self, "definitions", MappingProxyType(dict(self.definitions)))

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only view cannot be sent to another process; its content can.
        return Scores.from_dict, (self.to_dict(),)

    def __getitem__(self, name: str) -> float:
        if name not in self.numbers:
            known = list(self.numbers)
            raise KeyError(f"no score '{name}' was computed{nearest(name, known)} (there are: {', '.join(known)})")
        return self.numbers[name]

    def __contains__(self, name: object) -> bool:
        return name in self.numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def to_dict(self) -> dict[str, Any]:
        """The scores as JSON can hold them."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: dict(value) if isinstance(value, Mapping) else value for key, value in content.items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Scores":
        """The scores that `to_dict` wrote."""
        names = {field.name for field in fields(cls)}
        if set(content) != names:
            raise DataError(f"scores must hold exactly {', '.join(sorted(names))}", got=sorted(content))
        return cls(**content)

    def table(self) -> Table:
        """The scores as a table for the terminal."""
        counts = {
            "queries": self.queries,
            "without a positive": self.queries_without_positives,
            "gallery": self.gallery,
            "classes": self.classes,
        }
        rows = [[name, f"{value:.4f}"] for name, value in self.items()]
        return table("scores", ["score", "value"], rows + [[name, f"{count:,}"] for name, count in counts.items()])


def read_names(names: str | Sequence[str] | None, ks: Sequence[int]) -> dict[str, Any]:
    """The score that each name stands for, in the order asked.

    ``recall`` and ``precision`` stand for all of ``ks``; ``recall@3`` for that k. None stands for every known score.

    >>> list(read_names("recall,map@r,precision@10", ks=(1, 2)))
    ['recall@1', 'recall@2', 'map@r', 'precision@10']
    """
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    found: dict[str, Any] = {}
    for name in _all_names() if names is None else names:
        found.update(_read_name(name, ks))
    if not found:
        raise ConfigError("no score is asked for", use="scores=None for all of them")
    return found


def _all_names() -> list[str]:
    return sorted(score.names(), key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))


def _read_name(name: str, ks: Sequence[int]) -> dict[str, Any]:
    if name in score:
        if not _takes_k(name):
            return {name: score[name]()}
        for k in ks:
            check_count("evaluate", "each of ks", k)
        return {f"{name}@{k}": score[name](k=k) for k in ks}
    base, _, number = name.rpartition("@")
    if base in score and _takes_k(base) and number.isascii() and number.isdigit():
        return {f"{base}@{int(number)}": score[base](k=int(number))}
    raise score.unknown(name)


def _takes_k(name: str) -> bool:
    return "k" in inspect.signature(score[name]).parameters
