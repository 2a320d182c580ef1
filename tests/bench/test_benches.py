"""The benches measure every loss, compare like with like, say what they refuse, and write readable files."""

import csv
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from bench import cases, losses, measuring, records, robust
from unseen.core import registry
from unseen.core.randomness import derive, seeded

ROOT = Path(__file__).parents[2]
ALL = cases.CASES + robust.CASES
SAME = [case for case in ALL if case.theirs and not case.note]


def small(case):
    return measuring.Size(32, 16, 20 if case.kind == "proxy" else 0)


def quiet_steps(make, case):
    """A step of a case, without the warnings of the other library."""
    with warnings.catch_warnings(), seeded(derive(0, "test")):
        warnings.filterwarnings("ignore", module="pytorch_metric_learning")
        return make(case, small(case))(0)


def times(seconds):
    return measuring.Times(seconds, seconds, seconds, seconds, 3)


def record(case="contrastive", kind="pair", subject=records.OURS, batch=640, seconds=1.0, classes=0, status="ok"):
    measured = None if seconds is None else times(seconds)
    return records.Record(case, kind, subject, batch, 512, classes, status, measured, times(1.0))


def test_every_registered_loss_uncertainty_set_and_miner_is_measured():
    built = [case.ours(small(case)) for case in ALL]
    assert {registry.loss[name] for name in registry.loss.names()} <= {type(loss) for loss in built}
    sets = {type(getattr(loss, "uncertainty", None)) for loss in built}
    assert {registry.uncertainty[name] for name in registry.uncertainty.names()} <= sets
    chosen = {type(getattr(loss, "miner", None)) for loss in built}
    assert {registry.miner[name] for name in registry.miner.names()} <= chosen


def test_names_of_cases_are_unique():
    assert len({case.name for case in cases.CASES}) == len(cases.CASES)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_step_of_ours_and_of_theirs_runs(case):
    quiet_steps(cases.our_step, case)
    if case.theirs:
        quiet_steps(cases.their_step, case)


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")  # their histogram
@pytest.mark.parametrize("case", SAME, ids=lambda case: case.name)
def test_what_has_no_note_is_the_same_computation(case):
    size = small(case)
    embeddings, labels = cases.batch_of(size)
    ours, (theirs, _) = case.ours(size), case.theirs(size)
    if case.kind == "proxy":
        (their_proxies,) = theirs.parameters()
        flat = ours.proxies.detach().flatten(0, -2)
        their_proxies.data.copy_(flat if their_proxies.shape == flat.shape else flat.T)
    # Drawn triplets differ from library to library; both get ours.
    indices = None if getattr(ours, "miner", None) is None else tuple(ours.miner(embeddings, labels, key=0))
    values, gradients = [], []
    for loss in (ours, theirs):
        leaf = embeddings.clone().requires_grad_()
        value = loss(leaf, labels, *(() if indices is None else (indices,)))
        value.backward()
        values.append(value.detach())
        # Along the sphere: our SNR takes lengths out of its regulariser.
        gradients.append(leaf.grad - (leaf.grad * embeddings).sum(1, keepdim=True) * embeddings)
    # float32 by two different roads
    torch.testing.assert_close(*values, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    assert gradients[0].abs().max() > 1e-3


def test_the_batch_has_the_samples_a_class_that_its_size_says_and_unit_length():
    embeddings, labels = cases.batch_of(measuring.Size(40, 8, per_class=5))
    assert labels.bincount().tolist() == [5] * 8
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(40))


def test_the_floor_is_the_gradient_of_one_product():
    size = measuring.Size(8, 4, 6)
    seen = []

    def pack(tensor):
        seen.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        cases.floor_step(size)(0)
    assert sorted(seen) == [(4, 6), (8, 4)]  # the two factors of one product, nothing else


def test_a_step_that_allocates_too_much_is_refused_and_the_limit_is_lifted_after():
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(measuring.Refused, match=measuring.OUT_OF_MEMORY), measuring.guarded(memory=2**28):
        torch.zeros(2**28)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_a_step_that_takes_too_long_is_refused():
    with pytest.raises(measuring.Refused, match=measuring.TOO_SLOW), measuring.guarded(seconds=0.05):
        while True:
            pass


def test_an_error_that_is_not_about_memory_is_not_swallowed():
    with pytest.raises(RuntimeError, match="must match"), measuring.guarded():
        torch.zeros(2) + torch.zeros(3)


def test_steps_take_turns():
    order = []
    found = measuring.taking_turns(
        {"a": lambda number: order.append("a"), "b": lambda number: order.append("b")}, budget=0, sample=1e-12
    )
    assert order == ["a", "a", "b", "b", "a", "b", "a", "b"]
    assert {name: result.rounds for name, result in found.items()} == {"a": 3, "b": 3}


def test_a_refusal_is_reported_for_its_step_only_and_not_tried_at_a_larger_size():
    def refuse(size):
        raise MemoryError

    case = cases.Case("contrastive", "pair", cases.CASES[0].ours, refuse)
    hopeless: records.Refusals = {}
    first = records.measured(case, measuring.Size(16, 8), budget=0, hopeless=hopeless)
    assert [found.status for found in first] == ["ok", measuring.OUT_OF_MEMORY]

    def try_again(size):
        raise AssertionError("tried at a larger size")

    case = case._replace(theirs=try_again)
    second = records.measured(case, measuring.Size(32, 8), budget=0, hopeless=hopeless)
    assert [found.status for found in second] == ["ok", measuring.OUT_OF_MEMORY]


def test_targets_are_judged_by_the_numbers():
    found = [
        record(seconds=1.29),
        record("circle", seconds=1.31),
        record("circle", subject=records.THEIRS, seconds=9.0),
        record("histogram", seconds=None, status=measuring.TOO_SLOW),
        record("margin + distance", "mined", seconds=1.99),
        record("proxy_nca", "proxy", seconds=2.0, classes=100),
        record("proxy_nca", "proxy", records.THEIRS, seconds=1.0, classes=100),
        record("arc_face", "proxy", seconds=2.0, classes=100),
        record("arc_face", "proxy", records.THEIRS, seconds=None, classes=100, status=measuring.OUT_OF_MEMORY),
    ]
    by_target = {target.split(",")[0].split(":")[0]: (met, missed) for target, met, missed in losses.verdicts(found)}
    assert by_target == {
        "pair losses": (1, ["circle 1.31 (B = 640)", "histogram skipped: too slow"]),
        "mined losses": (1, []),
        "proxy losses": (1, ["proxy_nca, C = 100 2.00 times theirs (B = 640, d = 512)"]),
    }


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def run(module, *options):
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, options)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout


def test_the_bench_of_losses_writes_a_table_a_file_of_numbers_and_a_plot(tmp_path):
    shown = run("bench.losses", "--quick", "--only", "margin_pair", "--output", tmp_path)
    text = (tmp_path / "losses.md").read_text()
    assert "margin_pair" in shown
    assert "## Targets" in text
    assert "pair losses, B = 640 and 1280: at most 1.3 times the floor" in text
    assert "ours 640 of 640, theirs" in text
    assert " cores, 1 thread, torch " in text
    rows = rows_of(tmp_path / "losses.csv")
    assert [(row["case"], row["subject"], row["batch"]) for row in rows] == [
        ("margin_pair", "unseen", "80"),
        ("margin_pair", "unseen", "640"),
    ]
    assert all(float(row["times_floor_minimum"]) > 0.5 for row in rows)
    similarities = 640 * 640 * 4 / 2**20
    assert similarities < float(rows[1]["peak_mb"]) < 20 * similarities
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_name_is_answered_with_the_known_ones(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["losses.py", "--only", "no such loss"])
    with pytest.raises(SystemExit):
        losses.main()
    assert "multi_similarity + its miner" in capsys.readouterr().err


def test_the_bench_of_robust_sets_writes_a_table_a_file_of_numbers_and_a_plot(tmp_path):
    shown = run("bench.robust", "--quick", "--output", tmp_path)
    text = (tmp_path / "robust.md").read_text()
    assert "DRO-TopK-PN, ours" in shown
    assert "DRO-TopK-PN, ours" in text
    assert "SH is slower than DWS" in text
    rows = rows_of(tmp_path / "robust.csv")
    assert {row["batch"] for row in rows} == {"80", "160"}
    assert {row["case"] for row in rows} == {"DRO-TopK", "DRO-TopK-PN", "DRO-KL", "SH", "DWS", "MS", "LS"}
    assert (tmp_path / "robust.png").read_bytes().startswith(b"\x89PNG")
