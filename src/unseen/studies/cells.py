"""Cells of a study as runs: their complete recipes, the caches they share, and what a worker does with one."""

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from unseen.core.config import Record, canonical_json
from unseen.core.errors import ConfigError
from unseen.core.folders import cache_folder
from unseen.core.progress import Progress
from unseen.core.worker import CellJob
from unseen.data import Catalogue, check_images, load_catalogue
from unseen.runs.depths import items_at_depth, part_at_depth
from unseen.runs.recipe import prepare
from unseen.runs.run_recipe import device, make_dataset, model_of, run
from unseen.studies.plan import Cell, Plan

_DECIDES_A_CACHE = ("data", "split", "model", "transform", "depth", "cut", "views", "engine")


def plan_cells(plan: Plan) -> list[Cell]:
    """The plan's cells, each with its complete recipe, so that its name stands for every setting and for the data.

    Image files that a cell trains on at full depth are decoded once here, so that a broken one is named before a cell
    begins; the other depths decode every image when they fill their cache.

    Raises:     ConfigError for a plan that was not prepared, or a cell whose settings do not fit
    """
    if plan.unexpanded_splits:
        raise ConfigError(
            f"plan '{plan.name}': the split '{plan.unexpanded_splits[0]}' stands for several",
            hint="Call prepare_study on the plan first.",
        )
    load = _catalogue_loader()
    cells = plan.cells(lambda config: prepare(config, load).recipe.to_mapping())
    for data in {canonical_json(cell.config["data"]) for cell in cells if cell.config["depth"] == "full"}:
        check_images(load(json.loads(data)))
    return cells


def run_cell(job: CellJob, progress: Progress) -> Record:
    """Run one cell of a study; called in a worker process."""
    return run(replace(prepare(job.config), images_checked=True), job.folder, cache=job.cache, progress=progress)


def fill_caches(cells: Sequence[Cell], *, cache: Path | None = None, workers: int = 0) -> None:
    """Compute what the cells' cached depths need, once and with all processors, before workers share the cells."""
    load, filled = _catalogue_loader(), set()
    for cell in cells:
        needs = canonical_json({key: cell.config[key] for key in _DECIDES_A_CACHE})
        if cell.config["depth"] == "full" or needs in filled:
            continue
        filled.add(needs)
        prepared = prepare(cell.config, load)
        items = make_dataset(prepared.recipe, prepared.catalogue)
        parts = part_at_depth(prepared.recipe, model_of(prepared.recipe, items).to(device()), items)
        items_at_depth(prepared, parts, items, cache=cache or cache_folder(), workers=workers)


def _catalogue_loader() -> Callable[[Record], Catalogue]:
    """A function that loads each data set once, as many cells share theirs."""
    load = functools.cache(lambda record: load_catalogue(json.loads(record)))
    return lambda record: load(canonical_json(record))
