"""Splits that stand for many: the rungs of a ladder, and all ordered pairs of joined data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unseen.core.config import Record, as_record
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest
from unseen.shifts import read_ladder

_WORDS = ("easiest", "middle", "hardest")
_RUNGS = "Use all, or a list of numbers and of easiest, middle, hardest."


def expanded(content: Mapping[str, Any], ladder: str | None = None) -> Record:
    """The content of a plan, with a split of its own for each rung and each pair that a split stands for.

    ==========================================  ============================================================
    rung: {name: ladder, path: .., rungs: ..}   `rung 1`, `rung 2`, ...; rungs is `all` or a list of numbers
                                                and of the words easiest, middle, hardest; rungs that are
                                                groups are called by their names, `rung Latin`
    from: {name: domains, pairs: all}           `from birds to birds`, `from birds to cars`, ... of all parts of
                                                joined data; or of a list of parts or groups
    ==========================================  ============================================================

    Other settings of such a split go to each that it becomes. `ladder` is a file that stands over the path of every
    split of a ladder.

    Raises:     ConfigError for what is no choice of rungs or pairs, and for a label that stands twice
    """
    splits = content.get("splits")
    if not isinstance(splits, Mapping):
        return dict(content)
    described = dict(content.get("described") or {})
    records = {label: as_record(value, "split") for label, value in splits.items()}
    if ladder is not None:
        if not any(record["name"] == "ladder" for record in records.values()):
            raise ConfigError("the study has no split of a ladder", got=ladder, hint="Use no --ladder.")
        records = {
            label: _with_path(record, ladder) if record["name"] == "ladder" else record
            for label, record in records.items()
        }
    made: Record = {}
    for label, record in records.items():
        own = _own_splits(label, record, content.get("data"))
        twice = sorted(own.keys() & made.keys())
        if twice:
            raise ConfigError(f"splits: the label '{twice[0]}' stands twice", hint="Use another label.")
        made |= own
        if set(own) != {label} and label in described:
            words = described.pop(label)
            described |= {each: f"{words} ({each})" for each in own}
    return {**content, "splits": made} | ({"described": described} if described else {})


def _with_path(record: Record, path: str) -> Record:
    return {key: value for key, value in record.items() if key != "build"} | {"path": path}


def _own_splits(label: str, record: Record, data: Any) -> dict[str, Record]:
    if record["name"] == "ladder" and "rungs" in record:
        return _of_rungs(label, record)
    if record["name"] == "domains" and "pairs" in record:
        return _of_pairs(label, record, data)
    return {label: record}


def _of_rungs(label: str, record: Record) -> dict[str, Record]:
    if "rung" in record:
        raise ConfigError(f"splits: {label}: rung and rungs say the same thing twice", hint="Use one of them.")
    if not isinstance(record.get("path"), str):
        raise ConfigError(
            f"splits: {label}: a ladder needs its file", got=record.get("path"), hint="Use path, or --ladder."
        )
    ladder = read_ladder(Path(record["path"]).expanduser())
    count = len(ladder.rungs)
    chosen = record["rungs"]
    if chosen == "all":
        numbers = list(range(1, count + 1))
    elif isinstance(chosen, list) and chosen:
        numbers = [_number(label, each, count) for each in chosen]
    else:
        raise ConfigError(f"splits: {label}: rungs is no choice of rungs", got=chosen, hint=_RUNGS)
    if len(set(numbers)) < len(numbers):
        raise ConfigError(
            f"splits: {label}: a rung stands twice in rungs", got=chosen, hint=f"Use {count} rungs, each once."
        )
    shared = {key: value for key, value in record.items() if key != "rungs"}
    names = {number: ladder.rungs[number - 1].step if ladder.is_by_groups else number for number in numbers}
    return {f"{label} {name}": shared | {"rung": number} for number, name in names.items()}


def _number(label: str, chosen: Any, count: int) -> int:
    """The number of a rung that is named by a number or by a word."""
    if chosen in _WORDS:
        return {"easiest": 1, "middle": (count + 1) // 2, "hardest": count}[chosen]
    if type(chosen) is not int or not 1 <= chosen <= count:
        close = nearest(chosen, list(_WORDS)) if isinstance(chosen, str) else ""
        raise ConfigError(f"splits: {label}: the ladder has rungs 1 to {count}{close}", got=chosen, hint=_RUNGS)
    return chosen


def _of_pairs(label: str, record: Record, data: Any) -> dict[str, Record]:
    for key in ("train_on", "test_on"):
        if key in record:
            raise ConfigError(f"splits: {label}: {key} and pairs say the same thing twice", hint="Use one of them.")
    chosen = record["pairs"]
    if isinstance(chosen, list) and len({str(each) for each in chosen}) == len(chosen) >= 2:
        parts = tuple(str(each) for each in chosen)
    elif chosen == "all":
        parts = _parts_of(label, data)
    else:
        raise ConfigError(
            f"splits: {label}: pairs must be 'all' or a list of at least two different parts or groups", got=chosen
        )
    shared = {key: value for key, value in record.items() if key != "pairs"}
    return {
        f"{label} {one} to {other}": shared | {"train_on": one, "test_on": other} for one in parts for other in parts
    }


def _parts_of(label: str, data: Any) -> tuple[str, ...]:
    """The parts of the joined data of a plan."""
    values = data.values() if isinstance(data, Mapping) else ()
    parts = [tuple(value["parts"]) for value in values if isinstance(value, Mapping) and value.get("parts")]
    if not parts or len(set(parts)) > 1 or len(parts) < len(values):
        raise ConfigError(
            f"splits: {label}: pairs are those of the parts of joined data, the same in all data of the plan",
            hint="Use data: {all: {name: joined, parts: {birds: .., cars: ..}}}, or a list of groups as pairs.",
        )
    return parts[0]
