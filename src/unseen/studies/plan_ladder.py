"""Ladders that a plan asks for: built once from the plan's data, into the folder of the study."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unseen.core.checks import check_choice
from unseen.core.config import Record, as_record
from unseen.core.console import console, progress_bar
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest
from unseen.runs.frozen_features import Pooled, made_by, pool, prepare_pooled
from unseen.shifts import Ladder, build_group_ladder, read_ladder, write_ladder
from unseen.shifts.ladder import GROUPS

LADDER = "ladder.json"
_BUILD = ("by", "model", "transform", "rungs", "seed")


def group_ladder(pooled: Pooled, *, rungs: int | Sequence[str] | None = None, seed: int = 0) -> Ladder:
    """The ladder by groups of a catalogue and its features, with a bar of progress."""
    known = () if pooled.catalogue.class_groups is None else set(pooled.catalogue.class_groups)
    total = len(known) + 1
    with progress_bar("measuring groups", total) as bar:
        return build_group_ladder(
            pooled.catalogue,
            pooled.features,
            rungs=rungs,
            seed=seed,
            data=pooled.recipe.data,
            made_by=pooled.made_by,
            progress=lambda done, words: bar.set(done, total, words),
        )


def with_built_ladder(content: Mapping[str, Any], folder: Path, *, cache: Path | None = None) -> Record:
    """The content of a plan, with a file in the place of how a ladder is built.

    A split `{name: ladder, build: {by: groups, model: identity, rungs: 4}, rungs: all}` becomes one with the path
    `ladder.json` in the folder. The file is written unless it is there already, of the same data and settings.

    ==========  ====================================================================================
    by          groups: the steps of the ladder are the groups of the classes
    model       the backbone whose features measure the distances, and its transform; that of the data by default
    rungs       how many, or the names of steps; all by default
    seed        of the draws of classes and of the episodes
    ==========  ====================================================================================

    Raises:     ConfigError for what does not say how to build a ladder, for two of them, and for several data
    """
    splits = content.get("splits")
    records = (
        {} if not isinstance(splits, Mapping) else {key: as_record(value, "split") for key, value in splits.items()}
    )
    asked = [label for label, record in records.items() if record["name"] == "ladder" and "build" in record]
    if not asked:
        return dict(content)
    if len(asked) > 1:
        raise ConfigError("splits: a plan builds one ladder", got=asked, hint="Use path with a file for the others.")
    label = asked[0]
    record = records[label]
    if "path" in record:
        raise ConfigError(f"splits: {label}: path and build say the same thing twice", hint="Use one of them.")
    wanted = _checked(label, record["build"])
    data = content.get("data")
    if not isinstance(data, Mapping) or len(data) != 1:
        raise ConfigError(f"splits: {label}: a ladder is built on the one data set of a plan", got=data)
    path = folder / LADDER
    _build(path, next(iter(data.values())), wanted, cache)
    own = {key: value for key, value in record.items() if key != "build"} | {"path": str(path)}
    return {**content, "splits": {**records, label: own}}


def _checked(label: str, build: Any) -> Record:
    hint = "Write it as {by: groups, rungs: 4}."
    if not isinstance(build, Mapping):
        raise ConfigError(f"splits: {label}: build must be a mapping of settings", got=build, hint=hint)
    for key in build:
        if key not in _BUILD:
            raise ConfigError(f"splits: {label}: build has no '{key}'{nearest(str(key), list(_BUILD))}", hint=hint)
    check_choice(f"splits: {label}", "by", build.get("by"), ("groups",))
    return dict(build)


def _build(path: Path, data: Any, wanted: Record, cache: Path | None) -> None:
    """Write the ladder, unless the file holds one of the same data, features, rungs and seed."""
    settings: Record = {"data": data} | {key: wanted[key] for key in ("model", "transform") if key in wanted}
    prepared = prepare_pooled(settings)
    rungs, seed = wanted.get("rungs"), wanted.get("seed", 0)
    expected = {
        "settings": {"by": GROUPS, "rungs": rungs, "seed": seed},
        "made_by": made_by(prepared.recipe),
        "fingerprint": prepared.catalogue.fingerprint,
    }
    if path.exists():
        held = read_ladder(path)
        found = {
            "settings": held.settings,
            "made_by": held.features["made_by"],
            "fingerprint": held.data["fingerprint"],
        }
        if found == expected:
            return
    ladder = group_ladder(pool(prepared, cache=cache), rungs=rungs, seed=seed)
    write_ladder(path, ladder)
    words = ", ".join(f"{rung.step} {rung.class_distance:.3g}" for rung in ladder.rungs)
    console().print(f"built {path}, rungs by distance: {words}", markup=False, soft_wrap=True)
