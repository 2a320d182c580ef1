"""A plan: the grid of data x split x method x seed, and the cells it consists of."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from unseen.core.config import Record, as_record, hash_of
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest
from unseen.core.validation import SETTINGS, Count, PositiveInt, validate

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


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


class SkipRule(BaseModel):
    """Leaves out the cells that match all of its labels, for a reason: `{method: raw, split: scripts, why: "..."}`."""

    model_config = SETTINGS

    data: str | None = None
    split: str | None = None
    method: str | None = None
    seed: int | None = None
    why: Text

    def labels(self) -> Record:
        """The labels that a cell must have to be skipped, by axis."""
        return self.model_dump(exclude={"why"}, exclude_none=True)

    @model_validator(mode="after")
    def _check(self) -> "SkipRule":
        if not self.labels():
            raise ConfigError("a skip rule needs a label", got={"why": self.why}, hint="Add a data, split or method.")
        return self


class LadderBuild(BaseModel):
    """How `prepare_study` builds the ladder of a plan: `{by: groups, model: identity, rungs: 4}`.

    Each step tests one group of classes, at distances between features of `model`, by default that of the data. `rungs`
    is their number or the names of steps, by default all.
    """

    model_config = SETTINGS

    by: Literal["groups"]
    model: str | Record | None = None
    transform: str | Record | None = None
    rungs: PositiveInt | list[str] | None = None
    seed: Count = 0


class Plan(BaseModel):
    """A study as its author states it.

    =========  ================================================================================
    data       label -> data record, which becomes the setting `data` of a cell
    splits     label -> split record, which becomes the setting `split`; one that stands for several, such as all
               rungs of a ladder, is expanded by `prepare_study`; `methods` and `seeds` among its settings are those
               that run on it, where not all do
    methods    label -> settings that replace those of `base`; `seeds` among them holds the method's own seeds
               (`seeds: [0]` for a method without randomness)
    seeds      the seeds of every method that has none of its own
    base       the settings that all cells share
    described  split label -> words that follow "On": "characters never seen in training"; for the report's headline
    skip       rules that leave cells out, each with a reason
    baseline   label of the method that the report compares all others with; "" for none
    analyses   name of an analysis (`unseen analyse --help`) -> its settings; made when all cells are done
    =========  ================================================================================

    The merge is shallow: a method that states `loss` replaces the whole `loss` of `base`, not a part of it.
    """

    model_config = SETTINGS

    name: Text
    title: Text = Field(default_factory=lambda known: known["name"])
    data: Annotated[dict[str, Record], Field(min_length=1)]
    splits: Annotated[dict[str, Record], Field(min_length=1)]
    methods: Annotated[dict[str, Record], Field(min_length=1)]
    seeds: tuple[int, ...] = (0,)
    base: Record = Field(default_factory=dict)
    skip: Annotated[tuple[SkipRule, ...], Field(strict=False)] = ()
    described: dict[str, str] = Field(default_factory=dict)
    baseline: str = ""
    analyses: dict[str, Record] = Field(default_factory=dict)

    @classmethod
    def from_mapping(cls, content: Mapping[str, object]) -> "Plan":
        """The plan in a mapping, such as a YAML file holds.

        Raises:     ConfigError for an unknown key, a missing one, or a value that does not fit
        """
        return validate(cls, content, f"plan '{content['name']}'" if "name" in content else "plan")

    def to_mapping(self) -> Record:
        """The plan as plain JSON values; `from_mapping` reads them again."""
        rules = [rule.model_dump(exclude_none=True) for rule in self.skip]
        return _as_json({key: getattr(self, key) for key in type(self).model_fields} | {"skip": rules})

    def with_splits(self, splits: Mapping[str, Record], described: Mapping[str, str] | None = None) -> "Plan":
        """The plan with other splits, and other words for them; checked anew."""
        words = self.described if described is None else described
        return type(self).from_mapping({**self.to_mapping(), "splits": dict(splits), "described": dict(words)})

    def with_ladder_file(self, path: str, labels: Collection[str]) -> "Plan":
        """The plan whose splits of these labels take their rungs from a ladder file, instead of building one."""
        splits = {label: {**self.splits[label], "path": path} for label in labels}
        for split in splits.values():
            split.pop("build", None)
        return self.with_splits(self.splits | splits)

    @property
    def hash(self) -> str:
        """Sixteen hexadecimal digits that stand for the whole plan."""
        return hash_of(self.to_mapping())

    @property
    def unexpanded_splits(self) -> list[str]:
        """Labels of the splits that `prepare_study` must build or expand before there are cells."""
        keys = {"ladder": {"build", "rungs"}, "domains": {"pairs"}}
        return [label for label, split in self.splits.items() if keys.get(split["name"], set()) & split.keys()]

    def ladder_to_build(self) -> tuple[str, LadderBuild] | None:
        """The label of the split whose ladder is to be built, and how; None where there is none.

        Raises:     ConfigError for several of them, or several data sets to build it on
        """
        labels = [label for label, split in self.splits.items() if split["name"] == "ladder" and "build" in split]
        if not labels:
            return None
        label = labels[0]
        where, settings = f"plan '{self.name}': splits: {label}", self.splits[label]["build"]
        if len(labels) > 1:
            raise ConfigError(f"{where}: a plan builds one ladder", got=labels, hint="Give the others a path.")
        if "path" in self.splits[label]:
            raise ConfigError(f"{where}: path and build exclude each other", hint="State one of them.")
        if not isinstance(settings, Mapping):
            raise ConfigError(f"{where}: build must be a mapping", got=settings, hint="Use {by: groups, rungs: 4}.")
        if len(self.data) > 1:
            raise ConfigError(f"{where}: a ladder is built on the only data set of a plan", got=list(self.data))
        return label, validate(LadderBuild, settings, f"{where}: build")

    def seeds_of(self, method: str) -> tuple[int, ...]:
        """The seeds a method runs with."""
        return tuple(self.methods[method].get("seeds", self.seeds))

    def cells(self, complete: Callable[[Record], Record] = lambda config: config) -> list[Cell]:
        """The grid, seed after seed, so that every method has a first result early.

        `complete` checks a configuration and writes its defaults out before it is hashed.

        Raises:     ConfigError if two cells of the grid have the same configuration, or one that is not JSON
        """
        cells: dict[str, Cell] = {}
        for data, split, method, seed in self._grid():
            overrides = {key: value for key, value in self.methods[method].items() if key != "seeds"}
            own = {key: value for key, value in self.splits[split].items() if key not in ("methods", "seeds")}
            config = {**self.base, **overrides, "data": self.data[data], "split": own, "seed": seed}
            full = _as_json(complete(_as_json(config)))
            labels = {"data": data, "split": split, "method": method, "seed": seed}
            reasons = [rule.why for rule in self.skip if rule.labels().items() <= labels.items()]
            cell = Cell(hash_of(full), data, split, method, seed, full, reasons[0] if reasons else "")
            if cell.name in cells:
                raise ConfigError(
                    f"plan '{self.name}': {cells[cell.name]} and {cell} are the same configuration",
                    hint="Use one label for each configuration.",
                )
            cells[cell.name] = cell
        return list(cells.values())

    def _grid(self) -> Iterator[tuple[str, str, str, int]]:
        all_seeds = dict.fromkeys(seed for method in self.methods for seed in self.seeds_of(method))
        for seed, data, split, method in product(all_seeds, self.data, self.splits, self.methods):
            own = self.splits[split]
            runs_here = method in own.get("methods", [method]) and seed in own.get("seeds", [seed])
            if runs_here and seed in self.seeds_of(method):
                yield data, split, method, seed

    @field_validator("data", "splits", "methods", mode="before")
    @classmethod
    def _check_labels(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, Mapping):
            return value
        for label in value:
            if not isinstance(label, str) or not label:
                raise ConfigError(
                    f"plan '{info.data.get('name')}': {info.field_name}: a label must be a string that is not empty",
                    got=label,
                )
        if info.field_name == "methods":
            return dict(value)
        return {label: as_record(record, str(info.field_name).removesuffix("s")) for label, record in value.items()}

    @field_validator("seeds", mode="before")
    @classmethod
    def _check_seeds(cls, value: object, info: ValidationInfo) -> tuple[int, ...]:
        return _checked_seeds(f"plan '{info.data.get('name')}': seeds", value)

    @model_validator(mode="after")
    def _check(self) -> "Plan":
        """Check what the parts of the plan say about each other."""
        for where, settings in {"base": self.base, **{f"methods: {k}": v for k, v in self.methods.items()}}.items():
            for reserved in ("data", "split", "seed"):
                if reserved in settings:
                    raise ConfigError(f"plan '{self.name}': {where} may not hold '{reserved}', the grid sets it")
            if "seeds" in settings:
                _checked_seeds(f"plan '{self.name}': {where}: seeds", settings["seeds"])
        for label in self.splits:
            self._check_share(f"splits: {label}", self.splits[label])
        self.ladder_to_build()
        for label in self.described:
            self._check_known("described", "split", label)
        if self.baseline:
            self._check_known("baseline", "method", self.baseline)
        for rule in self.skip:
            for axis, label in rule.labels().items():
                self._check_known("a skip rule", axis, label)
        return self

    def _check_share(self, where: str, split: Record) -> None:
        """Refuse a split that names methods or seeds the plan lacks, or on which nothing would run."""
        owner, methods = f"plan '{self.name}': {where}", split.get("methods", list(self.methods))
        if not isinstance(methods, list) or len({str(method) for method in methods}) < len(methods):
            raise ConfigError(f"{owner}: methods must be a list of different labels", got=methods)
        for method in methods:
            self._check_known(where, "method", method)
        seeds = _checked_seeds(f"{owner}: seeds", split["seeds"]) if "seeds" in split else ()
        known = {seed for method in methods for seed in self.seeds_of(method)}
        unknown = sorted(set(seeds) - known)
        if unknown or not known:
            raise ConfigError(f"{owner}: its methods run with seeds {sorted(known)}", got=unknown)

    def _check_known(self, where: str, axis: str, label: Any) -> None:
        """Refuse a label that the plan lacks; those of rungs and pairs are known once their split is expanded."""
        if axis == "split" and any(label.startswith(f"{split} ") for split in self.unexpanded_splits):
            return
        seeds = [seed for method in self.methods for seed in self.seeds_of(method)]
        known = {"data": self.data, "split": self.splits, "method": self.methods, "seed": seeds}[axis]
        if label not in list(known):
            close = nearest(str(label), [str(name) for name in known])
            raise ConfigError(f"plan '{self.name}': {where} names a {axis} '{label}' that the plan lacks{close}")


def _checked_seeds(where: str, value: object) -> tuple[int, ...]:
    seeds = tuple(value) if isinstance(value, (list, tuple)) else ()
    are_integers = all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds)
    if not seeds or not are_integers or len(set(seeds)) < len(seeds):
        raise ConfigError(f"{where} must be a list of different integers >= 0", got=value)
    return seeds


def _as_json(content: object) -> Any:
    try:
        return json.loads(json.dumps(content, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError) as problem:
        raise ConfigError(f"a plan and its cells must be JSON without NaN or infinity ({problem})") from None
