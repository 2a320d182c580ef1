"""`unseen splits build` and `unseen splits show`: ladders of splits with increasing shift, as files and figures."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from unseen.cli import options
from unseen.core.config import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unseen.runs.frozen_features import Pooled
    from unseen.shifts import Ladder, LadderSettings, Rung

app = typer.Typer(help="Build and show ladders of splits, from easy to hard.", no_args_is_help=True)

Data = Annotated[str, typer.Option(help="cub200=DIR, cars196=DIR, sop=DIR, folder=DIR, features=FILE.npz, ...")]


@app.command("build", help="Build a ladder of splits, by swapping classes or from groups of classes.")
def build(
    data: Data,
    out: Annotated[Path, typer.Option(help="The JSON file to write.")],
    model: options.Model = None,
    transform: options.Transform = None,
    by: Annotated[
        str,
        typer.Option(help="swaps (of classes) or groups (each in turn is the test set: scripts, categories)."),
    ] = "swaps",
    start: Annotated[str | None, typer.Option(help="The initial split; given or fraction by default.")] = None,
    rungs: Annotated[
        int | None, typer.Option(help="Number of rungs, evenly spaced in distance; 9, or all groups, by default.")
    ] = None,
    distances: Annotated[str | None, typer.Option(help="Or the distances of the rungs: 20,50,90")] = None,
    steps: Annotated[
        str | None, typer.Option(help="Or the steps that become rungs: -20,0,6,R22; published; mixed,Greek")
    ] = None,
    swaps: Annotated[int | None, typer.Option(help="Swaps between steps; 2 % of the smaller side by default.")] = None,
    easier: Annotated[int | None, typer.Option(help="Steps towards easier splits.")] = None,
    harder: Annotated[int | None, typer.Option(help="Steps of swaps towards harder splits.")] = None,
    removals: Annotated[int | None, typer.Option(help="Steps of class removal after the swaps.")] = None,
    every_step: Annotated[
        bool, typer.Option("--every-step", help="Measure sample distances at every step, not only at some.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of validation classes and episodes.")] = 0,
    workers: options.Workers = 0,
    cache: options.Cache = None,
) -> None:
    """Build a ladder of splits."""
    from unseen.core.checks import check_choice
    from unseen.core.console import console
    from unseen.core.errors import ConfigError
    from unseen.runs.frozen_features import pooled_features
    from unseen.shifts import write_ladder
    from unseen.studies.preparation import group_ladder

    check_choice("splits build", "--by", by, ("swaps", "groups"))
    if out.suffix.lower() != ".json":
        raise ConfigError("splits build: --out must end in .json", got=str(out))
    selections = {"--rungs": rungs, "--distances": distances, "--steps": steps}
    stated = [name for name, value in selections.items() if value is not None]
    if len(stated) > 1:
        raise ConfigError(f"splits build: {' and '.join(stated)} exclude each other", hint="State one of them.")
    swap_options = {"swaps": swaps, "easier": easier, "harder": harder, "removals": removals}
    settings = {"data": data, "model": model, "transform": transform, "split": start}
    settings = {key: value for key, value in settings.items() if value is not None}
    make: Callable[[Pooled], Ladder]  # options are checked before features are computed
    if by == "groups":
        only_for_swaps: dict[str, object] = {
            "--start": start,
            "--distances": distances,
            "--every-step": every_step or None,
        }
        only_for_swaps |= {f"--{key}": value for key, value in swap_options.items()}
        for name, value in only_for_swaps.items():
            if value is not None:
                raise ConfigError(f"splits build: {name} is for --by swaps", got=value, hint=f"Leave {name} out.")
        make = partial(group_ladder, rungs=rungs if steps is None else _split(steps), seed=seed)
    else:
        ladder_settings = _ladder_settings(data, _selection(rungs, distances, steps), swap_options)
        samples = None if every_step else ladder_settings.samples
        make = partial(_by_swaps, settings=replace(ladder_settings, seed=seed, samples=samples))
    ladder = make(pooled_features(settings, cache=cache, workers=workers))
    write_ladder(out, ladder)
    _print(ladder)
    screen = console()
    screen.print(f"wrote {out} ({ladder.hash[:16]})", markup=False, soft_wrap=True)
    screen.print(f"next: unseen splits show {out}", markup=False, soft_wrap=True)
    screen.print(f"then: unseen train --data {data} --split ladder={out}:rung=1", markup=False, soft_wrap=True)


def _ladder_settings(
    data: str, rungs: int | list[float] | list[str], swap_options: dict[str, int | None]
) -> "LadderSettings":
    from unseen.core.config import as_record
    from unseen.core.errors import ConfigError
    from unseen.shifts import PUBLISHED_LADDERS, LadderSettings

    settings = LadderSettings(rungs=rungs)
    if rungs == ["published"]:
        name = as_record(data, "data")["name"]
        if name not in PUBLISHED_LADDERS:
            raise ConfigError(
                f"no ladder of {name} was published", hint=f"State --rungs, or use {', '.join(PUBLISHED_LADDERS)}."
            )
        settings = PUBLISHED_LADDERS[name]
    stated = {key: value for key, value in swap_options.items() if value is not None}
    return replace(settings, schedule=replace(settings.schedule, **stated))


def _by_swaps(pooled: "Pooled", *, settings: "LadderSettings") -> "Ladder":
    from unseen.core.console import console, progress_bar
    from unseen.data import split_catalogue
    from unseen.shifts import build_ladder

    start = split_catalogue(pooled.catalogue, pooled.recipe.split)
    console().print(f"start: {start.describe()}", markup=False)
    with progress_bar("measuring steps", total=1) as bar:
        return build_ladder(pooled.ladder_source, start, settings, progress=bar.set)


@app.command("show", help="Print a ladder; draw its distances and maps of an easy, a middle and a hard rung.")
def show(
    file: Annotated[Path, typer.Argument(help="A ladder that `unseen splits build` wrote.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the figures; that of the file by default.")] = None,
    data: Annotated[str | None, typer.Option(help="The data, if it is no longer where the ladder was built.")] = None,
    maps: Annotated[bool, typer.Option(help="Draw maps, which need the data.")] = True,
    workers: options.Workers = 0,
    cache: options.Cache = None,
    as_json: options.Json = False,
) -> None:
    """Show a ladder of splits."""
    from unseen.analyses.shift.ladder_figures import distance_figure
    from unseen.core.console import console
    from unseen.core.files import write_bytes
    from unseen.figures.style import render_png
    from unseen.shifts import read_ladder

    ladder = read_ladder(file)
    if as_json:
        typer.echo(json.dumps({"hash": ladder.hash, "rungs": [_as_mapping(rung) for rung in ladder.rungs]}, indent=2))
    else:
        _print(ladder)
    folder = file.parent if out is None else out
    # Maps take a minute; each figure is written as soon as it is drawn.
    distances: tuple[str, Callable[[], Figure]] = ("distances", partial(distance_figure, ladder))
    figures = _maps(ladder, data, workers, cache) if maps else iter(())
    for name, draw in chain([distances], figures):
        path = folder / f"{file.stem}-{name}.png"
        with console().status(f"drawing {name}"):
            write_bytes(path, render_png(draw))
        console().print(f"wrote {path}", markup=False, soft_wrap=True)


def _selection(rungs: int | None, distances: str | None, steps: str | None) -> int | list[float] | list[str]:
    from unseen.core.errors import ConfigError
    from unseen.shifts.rung_selection import RUNGS

    if steps is not None:
        return _split(steps)
    if distances is None:
        return RUNGS if rungs is None else rungs
    try:
        return [float(value) for value in distances.split(",")]
    except ValueError:
        raise ConfigError(
            "splits build: --distances must be numbers", got=distances, hint="Write --distances 20,50,90."
        ) from None


def _split(steps: str) -> list[str]:
    return [name.strip() for name in steps.split(",") if name.strip()]


def _maps(
    ladder: "Ladder", data: str | None, workers: int, cache: Path | None
) -> "Iterator[tuple[str, Callable[[], Figure]]]":
    """The names of the maps and the functions that draw them, from the ladder's data and features."""
    from unseen.analyses.shift.ladder_figures import PROJECTIONS, ladder_map
    from unseen.core.errors import ConfigError
    from unseen.runs.frozen_features import pooled_features

    record = data or ladder.data["record"]
    if record is None or ladder.features["made_by"] is None:
        raise ConfigError("the ladder file does not name its data", hint="Add --no-maps.")
    pooled = pooled_features({"data": record, **ladder.features["made_by"]}, cache=cache, workers=workers)
    for name in PROJECTIONS:
        yield f"map-{name}", partial(ladder_map, ladder, pooled.catalogue, pooled.features, name)


def _as_mapping(rung: "Rung") -> Record:
    counts = {side: len(getattr(rung, side)) for side in ("train", "validation", "test")}
    return {"step": rung.step, "class_distance": rung.class_distance, "sample_distance": rung.sample_distance, **counts}


def _print(ladder: "Ladder") -> None:
    from unseen.core.console import table

    rows = []
    for number, rung in enumerate(ladder.rungs, start=1):
        facts = _as_mapping(rung)
        distances = [f"{facts[level]:.2f}" for level in ("class_distance", "sample_distance")]
        counts = [f"{facts[side]:,}" for side in ("train", "validation", "test")]
        rows.append([str(number), rung.step, *distances, *counts])
    columns = ["rung", "step", "distance of class means", "of samples", "training classes", "validation", "test"]
    title = f"ladder of {escape(ladder.data['name'])}: {len(ladder.steps)} steps, {len(ladder.rungs)} rungs"
    Console(highlight=False).print(table(title, columns, rows))
