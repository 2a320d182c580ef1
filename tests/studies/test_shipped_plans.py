"""The studies that ship: every cell of them can be prepared, and the analyses find in them what they need."""

import pytest

from unseen.analyses import AnalysisInputs
from unseen.analyses.spectral.trained_methods import read_trained_methods
from unseen.core.config import read_yaml
from unseen.core.processes import identity
from unseen.core.registry import analysis
from unseen.reports import collect
from unseen.runs import run
from unseen.studies import Plan, plan_cells, shipped_plans
from unseen.studies.results.paired import paired_differences
from unseen.studies.results.ranking import rankings
from unseen.studies.runner import STORE
from unseen.studies.store import Store, create_store

SMALL = {
    "model": {"name": "convnet", "base": 4},
    "embedding_size": 8,
    "epochs": 1,
    "sampler": {"name": "samples_per_class", "batch_size": 128, "per_class": 2},
    "choose_by": "last",
}


def small_plan(name, methods=None):
    """A shipped plan on small pictures with small networks, one seed, and some of its methods."""
    content = read_yaml(shipped_plans()[name])
    content["base"] |= SMALL
    content["data"] = {"glyphs": {"name": "glyphs", "size": 8, "max_per_class": 3}}
    content["seeds"] = [0]
    chosen = content["methods"] if methods is None else {label: content["methods"][label] for label in methods}
    return Plan.from_mapping({**content, "methods": chosen})


def run_here(plan, folder):
    """Run a plan's cells in this process."""
    create_store(folder / STORE)
    with Store(folder / STORE) as store:
        store.set_plan(plan_cells(plan), plan.to_mapping())
        owner = identity()
        while (cell := store.claim(owner)) is not None:
            store.finish(cell.name, owner, run(cell.config, folder / "cells" / cell.name))


@pytest.mark.parametrize("name", ["regularisation", "p-switch", "mixup", "methods"])
def test_every_cell_of_a_shipped_study_can_be_prepared(name):
    plan = small_plan(name)
    assert len(plan_cells(plan)) == len(plan.methods) * len(plan.splits)
    assert read_yaml(shipped_plans()[name])["name"] == name


@pytest.mark.parametrize(
    ("name", "methods", "analysis_name"),
    [
        ("regularisation", ["margin", "R-margin", "multi-similarity"], "spectral-decay"),
        ("regularisation", ["SNR", "R-SNR"], "spectra"),
        ("p-switch", ["margin", "R-margin 0.1", "R-margin 0.4"], "p-switch"),
        ("mixup", ["triplet", "triplet, mixup"], "mixup"),
    ],
    ids=["spectral-decay", "spectra", "p-switch", "mixup"],
)
def test_a_small_run_of_a_shipped_study_is_analysed(tmp_path, name, methods, analysis_name):
    run_here(small_plan(name, methods), tmp_path)
    study = read_trained_methods(AnalysisInputs(tmp_path), "recall@1")
    assert [method.name for method in study.methods] == methods
    assert all(method.width == 8 for method in study.methods)
    found = analysis[analysis_name](AnalysisInputs(tmp_path))
    assert found.rows
    assert any("Pearson" in remark for remark in found.remarks)


@pytest.mark.parametrize("name", ["methods", "methods-top"])
def test_the_studies_of_methods_compare_with_the_margin_loss_all_else_being_equal(name):
    plan = Plan.from_mapping(read_yaml(shipped_plans()[name]))
    assert plan.baseline == "margin"
    plain = plan.methods["margin"]["loss"]
    for label in ("uniform prior", "mixup", "S2SD", "DiVA"):
        if label in plan.methods:
            assert plan.methods[label]["loss"] == plain, label
    regularised = plan.methods["R-margin"]["loss"]
    assert {key: value for key, value in regularised.items() if key != "miner"} | {
        "miner": {"name": "distance"}
    } == plain


def test_a_study_of_two_equal_methods_finds_no_difference(tmp_path):
    plan = small_plan("methods", ["margin"]).to_mapping()
    # A miner that switches nothing draws what the plain one draws.
    same = {"loss": {"name": "margin", "beta": 0.9, "miner": {"name": "rho_distance", "p_switch": 0.0}}}
    run_here(Plan.from_mapping({**plan, "methods": {**plan["methods"], "same": same}}), tmp_path)
    content = collect(tmp_path)
    (table,) = rankings(content)
    paired = paired_differences(content, table)
    assert paired is not None
    assert paired.scores == ("recall@1", "map@1000", "nmi", "rho")
    assert paired.left_out == ()
    (own,) = paired.entries
    assert own.entry.method == "same"
    for found in own.scores.values():
        assert found.value == 0
        assert found.low <= 0 <= found.high
        assert found.verdict == ""
    size = max(path.stat().st_size for path in tmp_path.rglob("draws.npz"))
    assert size < 400_000
