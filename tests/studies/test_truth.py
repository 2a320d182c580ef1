"""The store is the truth about a study: a changed result.json in a cell's folder changes no number of a report."""

import json

import pytest

from tests.helpers.two_groups import write_features_and_ladder
from unseen.core.processes import identity
from unseen.reports import collect, write_tables
from unseen.runs import run
from unseen.shifts import SwapSchedule
from unseen.studies import Plan, Store, plan_cells
from unseen.studies.runner import STORE
from unseen.studies.store import create_store


@pytest.fixture
def study(tmp_path):
    """The folder of a finished study of two cells."""
    write_features_and_ladder(tmp_path, SwapSchedule(swaps=2, easier=0, harder=2, removals=0), rungs=3)
    base = {"embedding_size": 4, "epochs": 1, "sampler": {"name": "samples_per_class", "batch_size": 20}}
    plan = Plan.from_mapping(
        {
            "name": "small",
            "data": {"groups": f"features={tmp_path / 'groups.npz'}"},
            "splits": {"halves": "fraction"},
            "methods": {"margin": {"loss": "margin"}, "triplet": {"loss": "triplet"}},
            "base": base,
        }
    )
    folder = tmp_path / "study"
    create_store(folder / STORE)
    with Store(folder / STORE) as store:
        store.set_plan(plan_cells(plan), plan.to_mapping())
        owner = identity()
        while (cell := store.claim(owner)) is not None:
            store.finish(cell.name, owner, run(cell.config, folder / "cells" / cell.name))
    return folder


def tables_of(folder, out):
    content = collect(folder)
    write_tables(content, out)
    scores = [(row.method, row.scores, row.intervals, row.history) for row in content.rows]
    return scores, {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def test_a_changed_result_file_changes_no_number_of_a_report(study, tmp_path):
    before = tables_of(study, tmp_path / "before")
    files = sorted((study / "cells").glob("*/result.json"))
    assert len(files) == 2
    for path in files:
        result = json.loads(path.read_text())
        result["scores"]["numbers"] = dict.fromkeys(result["scores"]["numbers"], 0.99)
        result["scores"]["intervals"] = {}
        result["history"] = []
        path.write_text(json.dumps(result))
    assert tables_of(study, tmp_path / "after") == before


def test_a_report_needs_no_result_file(study, tmp_path):
    before = tables_of(study, tmp_path / "before")
    for path in (study / "cells").glob("*/result.json"):
        path.unlink()
    assert tables_of(study, tmp_path / "after") == before
