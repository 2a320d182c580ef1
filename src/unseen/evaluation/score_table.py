"""The scores of one evaluation: values by name, with their definitions and the sizes of the test set."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from rich.table import Table

from unseen.core.checks import check_count
from unseen.core.console import table
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest, score
from unseen.evaluation.intervals import Draws
from unseen.evaluation.scores.base import Score

# The order in tables; other registered scores follow by name.
_FIRST = (
    *("recall", "precision", "r_precision", "map@r", "map@c", "map@c_printed", "map@1000", "map@1000_printed"),
    *("ap", "mrr", "ndcg", "nmi", "ami", "f1", "nmi_super", "f1_super", "rho", "rho@2", "rho_reverse"),
    *("intra", "inter", "intra_inter", "alignment", "uniformity", "pair_auc", "pair_ap", "pair_eer"),
)


@dataclass(frozen=True, kw_only=True)
class Scores(Mapping[str, float]):
    """A read-only mapping from the name of a score to its value.

    ==========================  ======================================================================
    definitions                 what each score is, with the rule for ties or the clustering
    queries, gallery            number of queries, and of gallery items
    classes                     number of classes in the evaluated set
    queries_without_positives   queries without another item of their class in the gallery
    intervals                   bootstrap interval of each score over classes
    left_out                    scores excluded by the caller
    draws                       replicates of the scores for a paired comparison; not part of `to_dict`
    ==========================  ======================================================================
    """

    numbers: Mapping[str, float]
    definitions: Mapping[str, str]
    queries: int
    gallery: int
    classes: int
    queries_without_positives: int
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    draws: Draws | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        intervals = {name: (float(low), float(high)) for name, (low, high) in self.intervals.items()}
        for name, content in (("numbers", self.numbers), ("definitions", self.definitions), ("intervals", intervals)):
            object.__setattr__(self, name, MappingProxyType(dict(content)))
        object.__setattr__(self, "left_out", tuple(self.left_out))

    def __reduce__(self) -> tuple[object, ...]:
        # A read-only view cannot be pickled; its content can.
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

    def to_dict(self) -> dict[str, object]:
        """The scores as JSON-compatible values."""
        content = {name: getattr(self, name) for name in _stored_fields()}
        content["intervals"] = {name: list(interval) for name, interval in self.intervals.items()}
        content["left_out"] = list(self.left_out)
        return {key: dict(value) if isinstance(value, Mapping) else value for key, value in content.items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> "Scores":
        """The scores from the result of `to_dict`."""
        # Older files have no intervals.
        stored: dict[str, Any] = {"intervals": {}, "left_out": []} | dict(content)
        if set(stored) != set(_stored_fields()):
            raise DataError(f"scores must hold exactly {', '.join(sorted(_stored_fields()))}", got=sorted(stored))
        return cls(**stored)

    def table(self) -> Table:
        """The scores as a table for the terminal."""
        counts = {
            "queries": self.queries,
            "without a positive": self.queries_without_positives,
            "gallery": self.gallery,
            "classes": self.classes,
        }
        rows = [[name, f"{value:.4f}", _interval(self.intervals.get(name))] for name, value in self.items()]
        rows += [[name, "left out", ""] for name in self.left_out]
        rows += [[name, f"{count:,}", ""] for name, count in counts.items()]
        confidence = "" if self.draws is None else f"{self.draws.bootstrap.confidence:.0%} "
        columns = ["score", "value", f"{confidence}interval over classes"]
        if not self.intervals:
            columns, rows = columns[:2], [row[:2] for row in rows]
        return table("scores", columns, rows)


def _stored_fields() -> list[str]:
    return [field.name for field in fields(Scores) if field.name != "draws"]


def _interval(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.4f} to {interval[1]:.4f}"


def read_names(
    names: str | Sequence[str] | None, ks: Sequence[int], without: str | Sequence[str] | None = None
) -> tuple[dict[str, Score], tuple[str, ...]]:
    """The scores that some names stand for, in that order, and the names of those that are left out.

    ``recall`` and ``precision`` stand for all of ``ks``; ``recall@3`` for that k. None stands for all default scores.
    ``clusters``, ``structure``, ... (a basis) stand for all default scores of that basis.

    >>> scores, left_out = read_names("recall,map@r,precision@10,nmi", ks=(1, 2), without="clusters")
    >>> list(scores), left_out
    (['recall@1', 'recall@2', 'map@r', 'precision@10'], ('nmi',))
    """
    named = _build(_split(names), ks)
    if not named:
        raise ConfigError("no score is named", hint="Pass scores=None for all of them.")
    left_out = tuple(name for name in _build(_split(without or ()), ks) if name in named)
    wanted = {name: score for name, score in named.items() if name not in left_out}
    if not wanted:
        raise ConfigError("evaluate: every named score is left out", got=", ".join(left_out))
    return wanted, left_out


def _split(names: str | Sequence[str] | None) -> Sequence[str]:
    if names is None:
        return _default_names()
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


def _build(names: Sequence[str], ks: Sequence[int]) -> dict[str, Score]:
    by_basis: dict[str, list[str]] = {}
    for name in _default_names():
        by_basis.setdefault(score[name].basis, []).append(name)
    scores: dict[str, Score] = {}
    for name_or_basis in names:
        for name in by_basis.get(name_or_basis, [name_or_basis]):
            scores.update(_read_name(name, ks))
    return scores


def _default_names() -> list[str]:
    names = [name for name in score.names() if score[name].is_default]
    return sorted(names, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))


def _read_name(name: str, ks: Sequence[int]) -> dict[str, Score]:
    if name in score:
        if not _takes_k(name, or_none=False):
            return {name: score[name]()}
        for k in ks:
            check_count("evaluate", "each of ks", k)
        return {f"{name}@{k}": score[name](k=k) for k in ks}
    base, _, number = name.rpartition("@")
    if base in score and _takes_k(base) and number.isascii() and number.isdigit():
        return {f"{base}@{int(number)}": score[base](k=int(number))}
    raise score.unknown(name)


def _takes_k(name: str, *, or_none: bool = True) -> bool:
    """Whether a score is a family over k; where k may be None its bare name is a score of its own."""
    k = inspect.signature(score[name]).parameters.get("k")
    return k is not None and (or_none or k.default is not None)
