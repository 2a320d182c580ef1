"""Splits that stand for several: the rungs of a ladder, and all ordered pairs of joined data."""

from collections.abc import Mapping
from pathlib import Path

from unseen.core.config import Record
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest
from unseen.shifts import read_ladder
from unseen.studies.plan import Plan

_WORDS = ("easiest", "middle", "hardest")
_RUNGS = "Use all, or a list of numbers and of easiest, middle, hardest."


def expand_splits(plan: Plan) -> Plan:
    """The plan with a split of its own for each rung and each pair that a split stands for.

    ==========================================  ============================================================
    rung: {name: ladder, path: .., rungs: ..}   `rung 1`, `rung 2`, ...; rungs is `all` or a list of numbers
                                                and of the words easiest, middle, hardest; rungs that are
                                                groups are called by their names, `rung Latin`
    from: {name: domains, pairs: all}           `from birds to birds`, `from birds to cars`, ... of all parts of
                                                joined data; or of a list of parts or groups
    ==========================================  ============================================================

    The other settings of such a split go to each split that it becomes.

    Raises:     ConfigError for a wrong choice of rungs or pairs, and for a label that occurs twice
    """
    described = dict(plan.described)
    splits: dict[str, Record] = {}
    for label, record in plan.splits.items():
        where = f"plan '{plan.name}': splits: {label}"
        if label not in plan.unexpanded_splits:
            expanded = {label: record}
        else:
            is_ladder = record["name"] == "ladder"
            parts = _expand_rungs(where, record) if is_ladder else _expand_pairs(where, record, plan.data)
            expanded = {f"{label} {name}": split for name, split in parts.items()}
        if repeated := sorted(expanded.keys() & splits.keys()):
            problem = f"plan '{plan.name}': splits: the label '{repeated[0]}' occurs twice"
            raise ConfigError(problem, hint="Use another label.")
        splits |= expanded
        if label not in expanded and label in described:
            words = described.pop(label)
            described |= {name: f"{words} ({name})" for name in expanded}
    return plan.with_splits(splits, described)


def _expand_rungs(where: str, record: Record) -> dict[str, Record]:
    if "rung" in record:
        raise ConfigError(f"{where}: rung and rungs exclude each other", hint="State one of them.")
    if not isinstance(record.get("path"), str):
        raise ConfigError(f"{where}: a ladder needs its file", got=record.get("path"), hint="Set path, or --ladder.")
    ladder = read_ladder(Path(record["path"]).expanduser())
    count = len(ladder.rungs)
    choice = record["rungs"]
    if choice == "all":
        numbers = list(range(1, count + 1))
    elif isinstance(choice, list) and choice:
        numbers = [_rung_number(where, rung, count) for rung in choice]
    else:
        raise ConfigError(f"{where}: rungs must be 'all' or a list of rungs", got=choice, hint=_RUNGS)
    if len(set(numbers)) < len(numbers):
        raise ConfigError(f"{where}: a rung occurs twice in rungs", got=choice, hint=f"There are {count} rungs.")
    shared = {key: value for key, value in record.items() if key != "rungs"}
    names = {number: ladder.rungs[number - 1].step if ladder.is_by_groups else str(number) for number in numbers}
    return {name: shared | {"rung": number} for number, name in names.items()}


def _rung_number(where: str, rung: object, count: int) -> int:
    """The number of a rung that is named by a number or by a word."""
    if rung in _WORDS:
        return {"easiest": 1, "middle": (count + 1) // 2, "hardest": count}[rung]
    if type(rung) is not int or not 1 <= rung <= count:
        close = nearest(rung, list(_WORDS)) if isinstance(rung, str) else ""
        raise ConfigError(f"{where}: the ladder has rungs 1 to {count}{close}", got=rung, hint=_RUNGS)
    return rung


def _expand_pairs(where: str, record: Record, data: Mapping[str, Record]) -> dict[str, Record]:
    for key in ("train_on", "test_on"):
        if key in record:
            raise ConfigError(f"{where}: {key} and pairs exclude each other", hint="State one of them.")
    choice = record["pairs"]
    if isinstance(choice, list) and len({str(part) for part in choice}) == len(choice) >= 2:
        parts = tuple(str(part) for part in choice)
    elif choice == "all":
        parts = _joined_parts(where, data)
    else:
        problem = f"{where}: pairs must be 'all' or a list of at least two different parts or groups"
        raise ConfigError(problem, got=choice)
    shared = {key: value for key, value in record.items() if key != "pairs"}
    return {f"{one} to {other}": shared | {"train_on": one, "test_on": other} for one in parts for other in parts}


def _joined_parts(where: str, data: Mapping[str, Record]) -> tuple[str, ...]:
    """The parts of the joined data of a plan, which are the same in all its data."""
    parts = [tuple(record["parts"]) for record in data.values() if record.get("parts")]
    if not parts or len(set(parts)) > 1 or len(parts) < len(data):
        raise ConfigError(
            f"{where}: pairs: all needs joined data, with the same parts in all data of the plan",
            hint="Use data: {all: {name: joined, parts: {birds: .., cars: ..}}}, or a list of groups as pairs.",
        )
    return parts[0]
