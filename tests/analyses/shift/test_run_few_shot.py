"""Few-shot scores of a finished run are those of its weights on its rung, and are computed once."""

from pathlib import Path

import pytest

from tests.helpers.two_groups import write_features_and_ladder
from unseen.analyses.base import AnalysisInputs
from unseen.analyses.few_shot import adapted_cells, few_shot_result
from unseen.analyses.shift import ladder_figures
from unseen.analyses.shift import run_few_shot as module
from unseen.analyses.shift.run_few_shot import FILE, FewShotGrid, few_shot_of_runs
from unseen.core.config import hash_of
from unseen.core.errors import DataError
from unseen.core.files import read_json
from unseen.core.processes import identity
from unseen.core.registry import analysis
from unseen.runs import load_run, prepare, run
from unseen.shifts import Adaptation, FewShotSettings, SwapSchedule, few_shot_on_rung, read_ladder
from unseen.studies.plan import Cell
from unseen.studies.runner import STORE
from unseen.studies.store import Store, create_store

QUICK = Adaptation(iterations={2: 5, 5: 5, 10: 5}, lr=0.01, batch_size=16)
SETTINGS = {"data": "features=groups.npz", "embedding_size": 4, "epochs": 1, "loss": "margin"}


@pytest.fixture
def rung(tmp_path, monkeypatch):
    """The settings of a run on the second rung of a ladder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    schedule = SwapSchedule(swaps=2, easier=1, harder=2, removals=1)
    made_by = {"model": "identity"}
    write_features_and_ladder(tmp_path, schedule, rungs=3, mixed=0.3, per_class=8, made_by=made_by)
    return SETTINGS | {"split": "ladder=ladder.json:rung=2", "sampler": "samples_per_class:batch_size=16,per_class=2"}


def test_scores_are_those_of_the_weights_on_the_rung_and_are_kept(rung, tmp_path, monkeypatch):
    run(rung, tmp_path / "run")
    grid = FewShotGrid((2, 5, 10), 2, QUICK)
    (found,) = few_shot_of_runs([tmp_path / "run"], grid)
    # Classes of 8 images have none left for 10 shots and two queries.
    assert [each.shots for each in found] == [2, 5]
    prepared, items, model = load_run(tmp_path / "run")
    ladder = read_ladder(Path("ladder.json"))
    own = FewShotSettings(shots=2, episodes=2, adaptation=QUICK)
    again = few_shot_on_rung(model, items, prepared.split, ladder, own)
    assert found[0] == again
    assert found[0].distance == ladder.rungs[1].class_distance
    monkeypatch.setattr(module, "few_shot_on_rung", None)
    assert few_shot_of_runs([tmp_path / "run"], grid) == [found]
    assert set(read_json(tmp_path / "run" / FILE)["found"]) == {"2", "5", "10"}


def test_what_is_done_is_kept_when_the_rest_is_interrupted(rung, tmp_path, monkeypatch):
    run(rung, tmp_path / "run")
    adapt, reported = module.few_shot_on_rung, []

    def interrupted(*arguments):
        if arguments[-1].shots == 2:
            raise KeyboardInterrupt
        return adapt(*arguments)

    monkeypatch.setattr(module, "few_shot_on_rung", interrupted)
    grid = FewShotGrid((2, 5), 2, QUICK)
    with pytest.raises(KeyboardInterrupt):
        few_shot_of_runs([tmp_path / "run"], grid, progress=lambda *now: reported.append(now))
    assert set(read_json(tmp_path / "run" / FILE)["found"]) == {"5"}
    monkeypatch.setattr(module, "few_shot_on_rung", adapt)
    (found,) = few_shot_of_runs([tmp_path / "run"], grid, progress=lambda *now: reported.append(now))
    assert [each.shots for each in found] == [2, 5]
    assert reported == [(1, 2, "5 shots"), (1, 1, "2 shots")]


def test_a_run_without_a_ladder_is_refused(rung, tmp_path):
    run(rung | {"split": "fraction"}, tmp_path / "run")
    with pytest.raises(DataError, match="few-shot episodes belong to a ladder; got 'fraction'"):
        few_shot_of_runs([tmp_path / "run"], FewShotGrid(adaptation=QUICK))
    with pytest.raises(DataError, match="holds no trained weights"):
        few_shot_of_runs([tmp_path / "nowhere"], FewShotGrid(adaptation=QUICK))


def test_a_study_over_rungs_is_analysed(rung, tmp_path):
    folder, cells = tmp_path / "study", []
    for number in (1, 3):
        config = rung | {"split": {"name": "ladder", "path": "ladder.json", "rung": number}, "seed": 0}
        cells.append(Cell(hash_of(config), "groups", f"rung {number}", "margin", 0, config))
        run(config, folder / "cells" / cells[-1].name)
    create_store(folder / STORE)
    with Store(folder / STORE) as store:
        store.set_plan(cells, {"title": "made up"})
        owner = identity()
        for _ in cells:
            claimed = store.claim(owner)
            assert claimed is not None
            store.finish(claimed.name, owner, read_json(folder / "cells" / claimed.name / "result.json"))
    inputs, grid = AnalysisInputs(folder), FewShotGrid((2,), 2, QUICK)
    found = adapted_cells(inputs, grid, {})
    result = few_shot_result(found, "recall@1")
    assert len(result.rows) == 2
    assert all(len(row) == len(result.columns) for row in result.rows)
    by_column = dict(zip(result.columns, result.rows[1], strict=True))
    gain = found[1].result.gains["recall@1"]
    assert gain.share is not None
    assert gain.share.low is not None
    assert by_column["split"] == "rung 3"
    assert by_column["zero-shot"] == gain.zero_shot.mean
    assert by_column["gain high"] == gain.share.high
    name, shots, zero, few, gained = result.terminal_rows()[1]
    assert (name, shots, zero) == ("rung 3 / margin / seed 0", "2", f"{100 * gain.zero_shot.mean:.1f}")
    assert few == f"{100 * gain.few_shot.mean:.1f}"
    assert gained.startswith(f"{100 * gain.share.mean:+.1f} ({100 * gain.share.low:+.1f} to ")
    assert result.remarks[0].startswith("2 shots: recall@1 changes by ")
    assert result.draw() is not None
    with pytest.raises(DataError, match=r"few-shot scores are recall@1, map@1000"):
        few_shot_result(found, "nmi")
    # Another number of processes reads what is there; chosen cells alone are taken.
    assert adapted_cells(inputs, grid, {}, workers=2) == found
    assert adapted_cells(inputs, grid, {"split": ["rung 3"], "method": (), "seed": [0]}) == found[1:]
    with pytest.raises(DataError, match=r"no trained cell has the split 'rung 2'.*there are: rung 1, rung 3"):
        adapted_cells(inputs, grid, {"split": ["rung 2"]})
    with pytest.raises(DataError, match="is no folder of a study"):
        adapted_cells(AnalysisInputs(tmp_path), grid, {})


def test_the_ladder_of_a_study_is_drawn_from_its_cells(rung, tmp_path, monkeypatch):
    folder = tmp_path / "study"
    config = rung | {"split": {"name": "ladder", "path": "ladder.json", "rung": 1}, "seed": 0}
    config = prepare(config).recipe.to_mapping()
    cell = Cell(hash_of(config), "groups", "rung 1", "margin", 0, config)
    create_store(folder / STORE)
    with Store(folder / STORE) as store:
        store.set_plan([cell], {"title": "made up"})
    drawn = analysis["ladder"](AnalysisInputs(folder))
    ladder = read_ladder(Path("ladder.json"))
    assert [row[0] for row in drawn.rows] == [step.name for step in ladder.steps]
    assert [row[0] for row in drawn.rows if row[1]] == [each.step for each in ladder.rungs]
    assert all(len(row) == len(drawn.columns) for row in drawn.rows)
    assert drawn.draw() is not None
    monkeypatch.setattr(ladder_figures, "PROJECTIONS", {"tsne": lambda points: (points[:, :2], "two dimensions")})
    shown = analysis["map-tsne"](AnalysisInputs(folder))
    assert [row[0] for row in shown.rows] == [1, 2, 3]
    assert len(shown.draw().axes) == 3
