"""Cells of a study as runs: what a worker process does with one, and the caches that cells share."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unseen.core.config import Record, canonical_json
from unseen.core.paths import cache_folder
from unseen.data import Catalogue, load_catalogue
from unseen.runs.depths import items_at_depth, part_at_depth
from unseen.runs.recipe import prepare
from unseen.runs.run_recipe import device, make_dataset, model_of, run
from unseen.studies.plan import Cell

_DECIDES_A_CACHE = ("data", "split", "model", "transform", "depth", "cut", "views")

CACHE_OF_CELLS = "UNSEEN_CACHE_OF_CELLS"
"""Tells a study's workers its `--cache`. Not `UNSEEN_CACHE`: sums of checked files stay where the study found them."""


def run_cell(config: Record, folder: Path, progress: Callable[[dict[str, Any]], None]) -> Record:
    """One cell of a study, in a worker process."""
    return run(
        replace(prepare(config), images_checked=True),
        folder,
        cache=os.environ.get(CACHE_OF_CELLS),
        progress=lambda done, total, words: progress({"done": done, "total": total, "words": words}),
    )


def fill_caches(cells: Sequence[Cell], *, cache: Path | None = None, workers: int = 0) -> None:
    """Compute what the cells' cached depths need, once and with all processors, before workers share the cells."""
    loaded: dict[str, Catalogue] = {}
    filled = set()
    for cell in cells:
        needs = canonical_json({key: cell.config[key] for key in _DECIDES_A_CACHE})
        if cell.config["depth"] == "full" or needs in filled:
            continue
        filled.add(needs)

        def load(record: Record) -> Catalogue:
            name = canonical_json(record)
            loaded[name] = loaded.get(name) or load_catalogue(record)
            return loaded[name]

        prepared = prepare(cell.config, load)
        recipe, items = prepared.recipe, make_dataset(prepared.recipe, prepared.catalogue)
        model = model_of(recipe, items).to(device())
        parts = part_at_depth(recipe, model, items)
        where = cache_folder() if cache is None else cache
        items_at_depth(prepared, parts, items, cache=where, workers=workers)
