"""`unseen demo`: a short study first, and the rest in the same folder."""

from pathlib import Path

import pytest

from tests.helpers.commands import unseen
from tests.helpers.small_runs import SMALL_PLAN, write_features
from unseen.cli import demo as command


@pytest.mark.parametrize("out", ["out/demo", "elsewhere"])
def test_the_short_demo_ends_with_the_command_that_continues_it(monkeypatch, capsys, out):
    studies = []
    monkeypatch.setattr(command, "study", lambda plan, **options: studies.append((plan, options)))
    command.demo(out=Path(out), workers=3)
    folder = "" if out == "out/demo" else f" --out {out}"
    assert f"demo --all{folder}` continues in this folder" in capsys.readouterr().err
    command.demo(out=Path(out), complete=True, workers=3)
    assert capsys.readouterr().err == ""
    assert studies == [(plan, {"out": Path(out), "workers": 3}) for plan in ("demo", "demo-all")]


def test_an_extended_plan_continues_in_the_same_folder_and_either_may_follow_the_other(tmp_path):
    write_features(tmp_path / "features.npz")
    (tmp_path / "plan.yaml").write_text(SMALL_PLAN)
    (tmp_path / "more.yaml").write_text("extends: plan.yaml\nseeds: [0, 1]\n")
    for plan, cells, finished in (("plan.yaml", 2, 2), ("more.yaml", 4, 2), ("plan.yaml", 2, 0), ("more.yaml", 4, 0)):
        err = unseen("study", plan, "--out", "out", cwd=tmp_path)[1]
        assert f"{cells} of {cells} cells are done, {finished} of them now" in err
        assert len(list((tmp_path / "out" / "cells").rglob("result.json"))) >= cells
