"""The studies that ship: every cell of them can be prepared, and the analyses find in them what they need."""

import pytest

from unseen.core.config import read_yaml
from unseen.core.processes import identity
from unseen.reports.paired_spectra import paired_spectra
from unseen.reports.spectral_decay import spectral_decay
from unseen.reports.studied import MIXED, REGULARISED, read_study
from unseen.reports.switching import p_switch_sweep
from unseen.studies import Plan, plan_cells, run, shipped_plans
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
    kept = content["methods"] if methods is None else {label: content["methods"][label] for label in methods}
    return Plan.from_mapping({**content, "methods": kept})


def run_here(plan, folder):
    """Run a plan's cells in this process."""
    create_store(folder / STORE)
    with Store(folder / STORE) as store:
        store.set_plan(plan_cells(plan), plan.to_mapping())
        owner = identity()
        while (cell := store.claim(owner)) is not None:
            store.finish(cell.name, owner, run(cell.config, folder / "cells" / cell.name, check_files=False))


@pytest.mark.parametrize("name", ["regularisation", "p-switch", "mixup"])
def test_every_cell_of_a_shipped_study_can_be_prepared(name):
    plan = small_plan(name)
    assert len(plan_cells(plan)) == len(plan.methods) * len(plan.splits)
    assert read_yaml(shipped_plans()[name])["name"] == name


@pytest.mark.parametrize(
    ("name", "methods", "analyse"),
    [
        ("regularisation", ["margin", "R-margin", "multi-similarity"], spectral_decay),
        ("regularisation", ["SNR", "R-SNR"], lambda studied: paired_spectra(studied, REGULARISED, "spectra")),
        ("p-switch", ["margin", "R-margin 0.1", "R-margin 0.4"], p_switch_sweep),
        ("mixup", ["triplet", "triplet, mixup"], lambda studied: paired_spectra(studied, MIXED, "mixup")),
    ],
    ids=["spectral-decay", "spectra", "p-switch", "mixup"],
)
def test_a_small_run_of_a_shipped_study_is_analysed(tmp_path, name, methods, analyse):
    run_here(small_plan(name, methods), tmp_path)
    studied = read_study(tmp_path, "recall@1")
    assert [method.name for method in studied.methods] == methods
    assert all(method.width == 8 for method in studied.methods)
    found = analyse(studied)
    assert found.rows
    assert any("Pearson" in remark for remark in found.remarks)
