"""A study over a ladder from its plan to its report, as people type it; its cells are run in this process."""

import csv
import io

import pytest
import yaml

from tests.helpers.two_groups import write_features_and_ladder
from unseen.cli.app import app
from unseen.core.errors import ConfigError
from unseen.core.processes import identity
from unseen.runs import run
from unseen.shifts import SwapSchedule, read_ladder
from unseen.studies import load_plan, plan_cells, prepare_study
from unseen.studies.runner import STORE
from unseen.studies.store import Store, create_store

PLAN = {
    "name": "small",
    "data": {"groups": "features=groups.npz"},
    "splits": {"rung": {"name": "ladder", "path": "ladder.json", "rungs": ["easiest", "hardest"], "validation": False}},
    "base": {
        "embedding_size": 4,
        "epochs": 1,
        "head": "random",
        "sampler": {"name": "samples_per_class", "batch_size": 20, "per_class": 2},
    },
    "methods": {
        "untrained features": {"loss": None, "epochs": 0, "embedding_size": None},
        "margin": {"loss": "margin"},
        "triplet": {"loss": "triplet"},
    },
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder of the finished study."""
    folder = tmp_path_factory.mktemp("study")
    write_features_and_ladder(folder, SwapSchedule(swaps=2, easier=0, harder=3, removals=0), rungs=3)
    (folder / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    plan = load_plan(str(folder / "plan.yaml"), f"features={folder / 'groups.npz'}", ladder=str(folder / "ladder.json"))
    plan = prepare_study(plan, folder)
    create_store(folder / STORE)
    with Store(folder / STORE) as store:
        store.set_plan(plan_cells(plan), plan.to_mapping())
        owner = identity()
        while (cell := store.claim(owner)) is not None:
            store.finish(cell.name, owner, run(cell.config, folder / "cells" / cell.name))
    return folder


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_the_report_of_a_study_over_a_ladder_has_its_curves(study, capsys):
    app(["report", str(study)], standalone_mode=False)
    said = capsys.readouterr().err
    assert "ladder" in said
    assert "aggregated" in said
    page = (study / "report.html").read_text()
    assert 'id="shift"' in page
    assert "Structure against shift" in page
    rungs = rows_of(study / "generalisation.csv")
    ladder = read_ladder(study / "ladder.json")
    assert {row["rung"] for row in rungs} == {"rung 1", "rung 3"}
    assert {float(row["distance of samples"]) for row in rungs} == {
        ladder.rungs[0].sample_distance,
        ladder.rungs[2].sample_distance,
    }
    related = rows_of(study / "structure.csv")
    assert {"rho", "uniformity", "intra_inter"} <= {row["structure score"] for row in related}
    assert {"recall@1", "map@r"} <= {row["retrieval score"] for row in related}


def test_any_score_can_be_aggregated(study, capsys):
    app(["analyse", "generalisation", str(study), "--score", "map@r", "--distance", "sample"], standalone_mode=False)
    assert "times a method changes its rank" in capsys.readouterr().err
    found = rows_of(study / "analyses" / "generalisation-map-at-r.csv")
    rungs = [row for row in rows_of_rungs(study) if row["score"] == "map@r"]
    for row in found:
        means = [float(each["mean"]) for each in rungs if each["method"] == row["method"]]
        assert float(row["aggregated"]) == pytest.approx(sum(means) / 2), "two rungs: the mean of both"


def rows_of_rungs(study):
    app(["report", str(study)], standalone_mode=False)
    return rows_of(study / "generalisation.csv")


def test_structure_is_drawn_against_a_score(study, capsys):
    app(["analyse", "structure", str(study)], standalone_mode=False)
    assert "rho and recall@1: Pearson" in capsys.readouterr().err
    assert (study / "analyses" / "structure-recall-at-1.png").read_bytes().startswith(b"\x89PNG")


def test_a_wrong_distance_is_refused(study):
    with pytest.raises(ConfigError, match="distance must be one of"):
        app(["analyse", "generalisation", str(study), "--distance", "far"], standalone_mode=False)
