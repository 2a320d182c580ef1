"""A plan: the grid of data x split x method x seed, and the cells it becomes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any

from unseen.core.config import Record, as_record, hash_of
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest

AXES = ("data", "split", "method", "seed")


@dataclass(frozen=True)
class Cell:
    """One run of a study: its full configuration, the name that follows from it, and its labels in the grid.

    `skip` holds the reason if a rule of the plan leaves the cell out.
    """

    name: str
    data: str
    split: str
    method: str
    seed: int
    config: Record
    skip: str = ""

    def __str__(self) -> str:
        return f"{self.data} / {self.split} / {self.method} / seed {self.seed}"


def name_of_cell(config: Record) -> str:
    """The name of a cell: the hash of its full configuration, so a changed setting is another cell.

    Raises:     ConfigError for a configuration that is not JSON
    """
    return hash_of(_as_json(config))


@dataclass(frozen=True)
class Plan:
    """A study as its author states it.

    =========  ================================================================================
    data       label -> data record, which becomes the setting `data` of a cell
    splits     label -> split record, which becomes the setting `split`; one that stands for several, such as all
               rungs of a ladder, is written out by `load_plan`; `methods` and `seeds` among its settings are those
               that run on it, where not all do
    methods    label -> settings that stand over those of `base`; `seeds` among them holds the method's own seeds
               (`seeds: [0]` for a method that has no randomness)
    seeds      the seeds of every method that has none of its own
    base       the settings that all cells share
    described  split label -> words that follow "On": "characters never seen in training"; for the report's headline
    skip       rules such as {method: raw, split: scripts, why: "..."}: cells that match all labels are left out
    baseline   label of the method that the report takes the paired differences of all others to; "" for none
    analyses   name of an analysis (`unseen analyse --help`) -> its settings; made when all cells are done
    =========  ================================================================================

    The merge is shallow: a method that states `loss` replaces the whole `loss` of `base`, not a part of it.
    """

    name: str
    title: str
    data: Mapping[str, Record]
    splits: Mapping[str, Record]
    methods: Mapping[str, Record]
    seeds: tuple[int, ...] = (0,)
    base: Record = field(default_factory=dict)
    skip: tuple[Record, ...] = ()
    described: Mapping[str, str] = field(default_factory=dict)
    baseline: str = ""
    analyses: Mapping[str, Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("name", "title"):
            if not isinstance(getattr(self, key), str) or not getattr(self, key).strip():
                raise ConfigError(f"plan: {key} must be a text", got=getattr(self, key))
        for key in ("data", "splits", "methods"):
            _check_labelled(self.name, key, getattr(self, key))
        for key in ("base", *(f"methods: {label}" for label in self.methods)):
            settings = self.base if key == "base" else self.methods[key.removeprefix("methods: ")]
            for reserved in ("data", "split", "seed"):
                if reserved in settings:
                    raise ConfigError(f"plan '{self.name}': {key} may not hold '{reserved}', the grid sets it")
        for key in ("data", "splits"):
            records = {label: as_record(value, key) for label, value in getattr(self, key).items()}
            object.__setattr__(self, key, records)
        object.__setattr__(self, "seeds", _checked_seeds(self.name, "seeds", self.seeds))
        for label in self.methods:
            self.seeds_of(label)
        for label in self.splits:
            self._check_share(label)
        for label in self.described:
            if label not in self.splits:
                close = nearest(label, list(self.splits))
                raise ConfigError(f"plan '{self.name}': described names a split '{label}' that the plan lacks{close}")
        if self.baseline != "" and (not isinstance(self.baseline, str) or self.baseline not in self.methods):
            close = nearest(str(self.baseline), list(self.methods))
            raise ConfigError(
                f"plan '{self.name}': baseline names a method '{self.baseline}' that the plan lacks{close}"
            )
        for name, settings in self.analyses.items():
            if not isinstance(settings, Mapping):
                raise ConfigError(f"plan '{self.name}': analyses: {name} must be a mapping of settings", got=settings)
        object.__setattr__(self, "skip", tuple(_checked_rule(self, rule) for rule in self.skip))

    def seeds_of(self, method: str) -> tuple[int, ...]:
        """The seeds a method runs with."""
        own = self.methods[method].get("seeds")
        return self.seeds if own is None else _checked_seeds(self.name, f"methods: {method}: seeds", own)

    def runs_on(self, split: str, method: str, seed: int) -> bool:
        """Whether a method runs on a split with a seed; rules that skip cells stand besides."""
        own = self.splits[split]
        return (
            seed in self.seeds_of(method)
            and method in own.get("methods", self.methods)
            and seed in own.get("seeds", (seed,))
        )

    def _check_share(self, split: str) -> None:
        """Refuse a split that names methods or seeds the plan lacks, or on which nothing would run."""
        where, own = f"splits: {split}", self.splits[split]
        methods = own.get("methods", list(self.methods))
        if not isinstance(methods, (list, tuple)) or len({str(each) for each in methods}) < len(methods):
            raise ConfigError(f"plan '{self.name}': {where}: methods must be a list of different labels", got=methods)
        for method in methods:
            if method not in self.methods:
                close = nearest(str(method), list(self.methods))
                raise ConfigError(f"plan '{self.name}': {where} names a method '{method}' that the plan lacks{close}")
        seeds = _checked_seeds(self.name, f"{where}: seeds", own["seeds"]) if "seeds" in own else None
        known = {seed for method in methods for seed in self.seeds_of(method)}
        unknown = set(seeds or ()) - known
        if unknown or not known:
            raise ConfigError(
                f"plan '{self.name}': {where}: its methods run with seeds {sorted(known)}", got=sorted(unknown)
            )

    def cells(self, complete: Callable[[Record], Record] | None = None) -> list[Cell]:
        """The grid, seed after seed, so that every method has a first result early.

        `complete` checks a configuration and writes its defaults out before it is hashed.

        Raises:     ConfigError if two places of the grid are the same configuration
        """
        cells: dict[str, Cell] = {}
        every_seed = dict.fromkeys(seed for method in self.methods for seed in self.seeds_of(method))
        for seed, data, split, method in product(every_seed, self.data, self.splits, self.methods):
            if not self.runs_on(split, method, seed):
                continue
            overrides = {key: value for key, value in self.methods[method].items() if key != "seeds"}
            own = {key: value for key, value in self.splits[split].items() if key not in ("methods", "seeds")}
            config = {**self.base, **overrides, "data": self.data[data], "split": own, "seed": seed}
            full = _as_json(complete(_as_json(config)) if complete else config)
            cell = Cell(
                name_of_cell(full), data, split, method, seed, full, self._reason_to_skip(data, split, method, seed)
            )
            if cell.name in cells:
                raise ConfigError(
                    f"plan '{self.name}': {cells[cell.name]} and {cell} are the same configuration",
                    hint="Use one label for each configuration.",
                )
            cells[cell.name] = cell
        return list(cells.values())

    def _reason_to_skip(self, data: str, split: str, method: str, seed: int) -> str:
        place = dict(zip(AXES, (data, split, method, seed), strict=True))
        for rule in self.skip:
            if all(place[axis] == label for axis, label in rule.items() if axis != "why"):
                return str(rule["why"])
        return ""

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any]) -> "Plan":
        """The plan in a mapping, such as a YAML file holds; an unknown key is refused with the nearest one."""
        known = [part.name for part in fields(cls)]
        for key in content:
            if key not in known:
                raise ConfigError(f"a plan has no '{key}'{nearest(str(key), known)} (it has: {', '.join(known)})")
        missing = [key for key in ("name", "data", "splits", "methods") if key not in content]
        if missing:
            raise ConfigError(
                f"a plan needs '{missing[0]}'", got=sorted(content), hint="Use name, data, splits and methods."
            )
        return cls(**{"title": content["name"], **content})

    def to_mapping(self) -> Record:
        """The mapping that `from_mapping` would make this plan of."""
        content: Record = _as_json({part.name: getattr(self, part.name) for part in fields(self)})
        return content

    @property
    def hash(self) -> str:
        """Sixteen digits that stand for the whole plan."""
        return hash_of(self.to_mapping())


def _as_json(content: Any) -> Any:
    try:
        return json.loads(json.dumps(content, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError) as problem:
        raise ConfigError(f"a plan and its cells must be JSON without NaN or infinity ({problem})") from None


def _check_labelled(plan: str, key: str, value: Any) -> None:
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(f"plan '{plan}': {key} must be a mapping of labels that is not empty", got=value)
    for label, record in value.items():
        if not isinstance(label, str) or not label:
            raise ConfigError(f"plan '{plan}': a label in {key} must be a text", got=label)
        if not isinstance(record, Mapping) and not (isinstance(record, str) and key != "methods"):
            raise ConfigError(f"plan '{plan}': {key}: {label} must be a mapping of settings", got=record)


def _checked_seeds(plan: str, key: str, seeds: Any) -> tuple[int, ...]:
    whole = isinstance(seeds, (list, tuple)) and all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds)
    if not whole or not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"plan '{plan}': {key} must be a list of different whole numbers >= 0", got=seeds)
    return tuple(seeds)


def _checked_rule(plan: Plan, rule: Any) -> Record:
    hint = 'Write a mapping such as {method: raw, why: "..."}.'
    if not isinstance(rule, Mapping) or not rule.get("why") or len(rule) < 2:
        raise ConfigError(f"plan '{plan.name}': a skip rule needs a label and a 'why'", got=rule, hint=hint)
    labels: dict[str, list[Any]] = {
        "data": list(plan.data),
        "split": list(plan.splits),
        "method": list(plan.methods),
        "seed": [seed for method in plan.methods for seed in plan.seeds_of(method)],
    }
    for axis, label in rule.items():
        if axis == "why":
            continue
        if axis not in labels:
            raise ConfigError(
                f"plan '{plan.name}': a skip rule has no '{axis}'{nearest(str(axis), list(AXES))}", hint=hint
            )
        if label not in labels[axis]:
            raise ConfigError(f"plan '{plan.name}': a skip rule names a {axis} that the plan lacks", got=label)
    return dict(rule)
