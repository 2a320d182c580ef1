"""Preparing a study: its ladder is built once into its folder, and its splits are expanded."""

from collections.abc import Sequence
from pathlib import Path

from unseen.core.config import Record
from unseen.core.console import console, progress_bar
from unseen.runs.frozen_features import Pooled, made_by, pool, prepare_pooled
from unseen.shifts import Ladder, build_group_ladder, read_ladder, write_ladder
from unseen.shifts.ladder import GROUPS
from unseen.studies.expand_splits import expand_splits
from unseen.studies.plan import LadderBuild, Plan

LADDER = "ladder.json"


def prepare_study(plan: Plan, folder: Path, *, cache: Path | None = None) -> Plan:
    """The plan that a study runs: with the file of its ladder, and a split for each rung and each pair.

    A split `{name: ladder, build: {by: groups, rungs: 4}, rungs: all}` gets the path `ladder.json` in the folder. The
    file is written unless it is there already, with the same data and settings. `cache` holds features.

    Raises:     ConfigError for rungs or pairs that do not exist; DataError for data that no ladder can be built on
    """
    to_build = plan.ladder_to_build()
    if to_build is None:
        return expand_splits(plan)
    label, settings = to_build
    path = folder / LADDER
    _build_ladder_file(path, next(iter(plan.data.values())), settings, cache)
    return expand_splits(plan.with_ladder_file(str(path), [label]))


def group_ladder(pooled: Pooled, *, rungs: int | Sequence[str] | None = None, seed: int = 0) -> Ladder:
    """The ladder by groups of a catalogue and its features, with a progress bar."""
    with progress_bar("measuring groups", total=1) as bar:
        return build_group_ladder(pooled.ladder_source, rungs=rungs, seed=seed, progress=bar.set)


def _build_ladder_file(path: Path, data: Record, settings: LadderBuild, cache: Path | None) -> None:
    """Write the ladder, unless the file holds one of the same data, features, rungs and seed."""
    prepared = prepare_pooled({"data": data} | settings.model_dump(include={"model", "transform"}, exclude_unset=True))
    facts = {"by": GROUPS, "rungs": settings.rungs, "seed": settings.seed}
    wanted = [facts, made_by(prepared.recipe), prepared.catalogue.fingerprint]
    if path.exists():
        old = read_ladder(path)
        if [old.settings, old.features["made_by"], old.data["fingerprint"]] == wanted:
            return
    ladder = group_ladder(pool(prepared, cache=cache), rungs=settings.rungs, seed=settings.seed)
    write_ladder(path, ladder)
    rungs = ", ".join(f"{rung.step} {rung.class_distance:.3g}" for rung in ladder.rungs)
    console().print(f"built {path}, rungs by distance: {rungs}", markup=False, soft_wrap=True)
