"""The how-tos are tested by doing them: the one file of a page is put in place in a copy of the package, and used.

Pages without such a file have their commands run.
"""

import json
import os
import re
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
from PIL import Image

from tests.helpers.commands import unseen
from tests.helpers.fresh_process import run_code
from tests.helpers.small_runs import image_settings, write_features, write_images
from unseen.models import backbone_facts, packaged_weights
from unseen.runs import run

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "how-to"
FILE = re.compile(r"^`src/(unseen/\S+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = "from unseen.cli import main; main()"
QUICK = ["--epochs", "1", "--embedding-size", "8", "--sampler", "samples_per_class:batch_size=12,per_class=2"]


class Package:
    """A copy of the package with the file of a page added, and its command line."""

    def __init__(self, folder: Path, page: str) -> None:
        self.folder = folder
        ((path, code),) = FILE.findall((PAGES / page).read_text(encoding="utf-8"))
        assert not (ROOT / "src" / path).exists(), f"{path} exists: the page must add a new file"
        shutil.copytree(ROOT / "src" / "unseen", folder / "unseen")  # with what numba compiled, whose times are kept
        (folder / path).write_text(code, encoding="utf-8")

    def __call__(self, *arguments, code=0):
        """Run a command; returns standard output and error."""
        with patch.dict(os.environ, COLUMNS="160"):
            done = run_code(COMMAND, *arguments, cwd=self.folder, path=(str(self.folder),))
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done.stdout, done.stderr

    def listed(self, kind):
        return {entry["name"]: entry for entry in json.loads(self("list", kind, "--json")[0])}


@pytest.fixture
def package(tmp_path, request):
    return Package(tmp_path, request.param)


@pytest.mark.parametrize("package", ["add-a-loss.md"], indirect=True)
def test_the_loss_of_the_page_is_listed_trained_with_and_checked(package):
    entry = package.listed("losses")["logistic"]
    assert entry["summary"].startswith("Binary cross-entropy")
    assert [argument["name"] for argument in entry["arguments"]] == ["scale", "threshold", "miner"]
    write_features(package.folder / "features.npz")
    arguments = ["train", "--data", "features=features.npz", *QUICK, "--out", "run"]
    package(*arguments, "--loss", "logistic:scale=8", "--miner", "multi_similarity")
    recipe = json.loads((package.folder / "run" / "run.json").read_text())["recipe"]
    assert recipe["loss"] == {
        "name": "logistic",
        "scale": 8.0,
        "threshold": 0.5,
        "miner": {"name": "multi_similarity", **recipe["loss"]["miner"]},
    }
    assert "did you mean 'scale'" in package(*arguments, "--loss", "logistic:scal=8", code=2)[1]
    assert "scale must be a finite number > 0" in package(*arguments, "--loss", "logistic:scale=0", code=2)[1]


@pytest.mark.parametrize("package", ["add-a-data-set.md"], indirect=True)
def test_the_data_set_of_the_page_is_listed_described_and_trained_on(package):
    assert "digits" in package.listed("data")
    facts = json.loads(package("data", "info", "--data", "digits", "--json")[0])
    assert facts["parts"][0] == {**facts["parts"][0], "name": "all", "images": 1797, "classes": 10}
    package(
        *["train", "--data", "digits", "--split", "first:validation=0", "--transform", "plain:size=8"],
        *["--model", "convnet:base=4", *QUICK, "--choose-by", "last", "--out", "run"],
    )
    result = json.loads((package.folder / "run" / "result.json").read_text())
    assert result["scores"]["numbers"]["recall@1"] > 0.5, "5 unseen digits: chance is 0.2"


@pytest.mark.parametrize("package", ["add-a-score.md"], indirect=True)
def test_the_score_of_the_page_is_listed_and_evaluated_with_its_interval(package):
    assert package.listed("scores")["search_effort"]["summary"].startswith("Share of the gallery")
    write_features(package.folder / "features.npz")
    scores = json.loads(package("evaluate", "features.npz", "--scores", "search_effort,recall@1", "--json")[0])
    low, high = scores["intervals"]["search_effort"]
    assert 0 <= low < scores["numbers"]["search_effort"] < high < 0.5, "better than a random order"
    assert scores["definitions"]["search_effort"].startswith("mean over queries")
    assert "search_effort" in json.loads(package("evaluate", "features.npz", "--json")[0])["numbers"]


PLAN = """
name: small
data: {toy: "features=features.npz"}
splits: {half: "fraction:train=0.5,validation=0"}
seeds: [0, 1]
base: {embedding_size: 6, epochs: 1, choose_by: last, sampler: "samples_per_class:batch_size=12,per_class=2"}
methods: {contrastive: {loss: contrastive}}
analyses: {seed-spread: {score: map@r}}
"""


@pytest.mark.parametrize("package", ["add-an-analysis.md"], indirect=True)
def test_the_analysis_of_the_page_is_listed_run_by_a_study_and_by_its_command(package):
    assert package.listed("analyses")["seed-spread"]["summary"] == "Range of a score over the seeds of each method."
    write_features(package.folder / "features.npz")
    (package.folder / "plan.yaml").write_text(PLAN)
    package("study", "plan.yaml", "--out", "study", "--workers", "1")
    folder = package.folder / "study" / "analyses"
    stored = json.loads((folder / "seed-spread-map-at-r.json").read_text())
    assert stored["columns"] == ["split", "method", "seeds", "lowest", "highest"]
    assert stored["rows"][0][:3] == ["half", "contrastive", 2]
    assert "The seeds of contrastive on half differ most." in (package.folder / "study" / "report.html").read_text()
    package("analyse", "seed-spread", "study")
    assert (folder / "seed-spread-recall-at-1.png").read_bytes().startswith(b"\x89PNG")
    assert "has the score 'recal'" in package("analyse", "seed-spread", "study", "--score", "recal", code=2)[1]


def test_the_backbones_of_the_page_are_those_that_are_listed():
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+) \| (.*) \| (.*) \| `(.*)` \|$", page_text("choose-a-backbone.md"), re.MULTILINE
    )
    known = packaged_weights()
    assert [name for name, *_ in rows] == list(known)
    for name, width, *facts in rows:
        entry = known[name]
        assert int(width) == backbone_facts()[entry.architecture].width
        assert facts == [entry.pretraining, entry.licence, entry.install]


def test_the_exports_of_the_page_are_written_and_its_program_runs_on_them(tmp_path):
    pytest.importorskip("onnxruntime")
    images = write_images(tmp_path / "images")
    run(image_settings(images, epochs=1), tmp_path / "run")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page_text("export.md"), re.MULTILINE | re.DOTALL)
    for command in next(code for language, code in blocks if not language).splitlines():
        unseen(*command.split()[1:], cwd=tmp_path)
    assert {"model.onnx", "model.int8.onnx"} <= {file.name for file in (tmp_path / "run").iterdir()}
    assert (tmp_path / "birds.pt").is_file()
    assert len((tmp_path / "run" / "preprocess.py").read_text().partition("def preprocess")[2].splitlines()) <= 17
    (tmp_path / "run" / "photographs").mkdir()
    for number, file in enumerate(sorted(images.rglob("*.png"))[:5]):
        Image.open(file).save(tmp_path / "run" / "photographs" / f"{number}.jpg")
    program = next(code for language, code in blocks if language == "python")
    done = run_code(program, cwd=tmp_path / "run", path=(str(tmp_path / "run"),))
    assert done.stdout.strip() == "(5, 6)", done.stderr


def page_text(name):
    return (PAGES / name).read_text(encoding="utf-8")


def test_every_page_is_tested():
    source = Path(__file__).read_text()
    assert [page.name for page in sorted(PAGES.glob("*.md")) if f'"{page.name}"' not in source] == []
