"""Adding a score is adding one file: it is evaluated, listed, gets an interval and falls under the contract."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import unseen
import unseen.evaluation as evaluation
from unseen.core import registry
from unseen.core.errors import ConfigError
from unseen.evaluation.scores.base import Score

ROOT = Path(__file__).parents[2]


EXAMPLE = '''"""Largest similarity of two items of different classes."""

import numpy as np

from unseen.core.registry import score
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.scores.base import Score


@score("worst_overlap")
class WorstOverlap(Score):
    """Largest cosine similarity of two items of different classes; 0 for one class."""

    basis = "embeddings"
    higher_is_better = False
    bounds = (-1.0, 1.0)
    collapsed = 1.0
    definition = "largest cosine similarity of two items of different classes"

    def __call__(self, units: Floats, classes: Integers) -> float:
        is_other = classes[:, None] != classes
        return float(np.clip((units @ units.T)[is_other].max(initial=-1.0), -1.0, 1.0)) if is_other.any() else 0.0
'''


def test_a_score_file_is_evaluated_listed_and_under_contract_without_another_edit(tmp_path):
    package = tmp_path / "unseen"
    shutil.copytree(Path(unseen.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "evaluation" / "scores" / "overlap.py").write_text(EXAMPLE, encoding="utf-8")

    def run(*arguments):
        settings = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
        ended = subprocess.run(
            [sys.executable, *arguments], env=settings, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    code = """
        import numpy as np, unseen
        rows = np.random.default_rng(0).normal(size=(60, 4))
        scores = unseen.evaluate(rows, np.arange(60) // 5)
        low, high = scores.intervals["worst_overlap"]
        assert low < scores["worst_overlap"] < high and "worst_overlap" in scores.definitions
        print(list(scores)[-1])
    """
    assert run("-c", textwrap.dedent(code)).split()[-1] == "worst_overlap"
    assert "worst_overlap" in run("-m", "unseen", "list", "scores")
    contract = ROOT / "tests" / "contracts" / "test_score_contract.py"
    output = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), str(contract), "-k", "overlap")
    assert "passed" in output


@pytest.fixture
def _restored_registry(monkeypatch):
    loaded = {name: registry.score[name] for name in registry.score.names()}
    monkeypatch.setattr(registry.score, "_loaded", loaded)


@pytest.mark.usefixtures("_restored_registry")
def test_a_score_registered_in_a_notebook_is_evaluated_with_an_interval():
    @registry.score("mean_similarity")
    class MeanSimilarity(Score):
        """Mean cosine similarity of all pairs of rows."""

        basis = "embeddings"
        bounds = (-1.0, 1.0)
        definition = "mean cosine similarity of all pairs of rows"

        def __call__(self, units, classes):
            return float((units @ units.T)[np.triu_indices(len(units), 1)].mean())

    rows, labels = np.random.default_rng(0).normal(size=(60, 4)) + 1, np.arange(60) // 5
    scores = evaluation.evaluate(rows, labels, scores="recall@1,mean_similarity")
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert scores["mean_similarity"] == pytest.approx((units @ units.T)[np.triu_indices(60, 1)].mean(), abs=1e-7)
    low, high = scores.intervals["mean_similarity"]
    assert low < scores["mean_similarity"] < high
    assert "mean_similarity" in evaluation.evaluate(rows, labels)


@pytest.mark.usefixtures("_restored_registry")
def test_an_unknown_basis_is_refused_with_the_known_ones():
    @registry.score("baseless")
    class Baseless(Score):
        """A score of nothing."""

        basis = "nothing"
        definition = "a score of nothing"

    with pytest.raises(ConfigError, match="unknown basis 'nothing'. Choose from ranks, clusters"):
        evaluation.evaluate(np.eye(3), [0, 0, 1], scores="baseless")
