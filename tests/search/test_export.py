"""Exported runs: other programs compute the run's embeddings from the file and its description alone."""

import hashlib
import importlib.util
import json
import sys
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from tests.helpers.commands import one_sentence, unseen
from tests.helpers.fresh_process import run_code
from tests.helpers.small_runs import image_settings, settings_for, write_features
from unseen.core.errors import ConfigError
from unseen.models import embed
from unseen.runs import load_run, run
from unseen.search import ExportSettings, export, export_run

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def write_photographs(folder):
    """JPEG files of several sizes and shapes, one of them on its side by its EXIF orientation."""
    generator = np.random.default_rng(0)
    for label in range(8):
        (folder / f"class {label}").mkdir(parents=True)
        colour = generator.integers(60, 196, size=3)
        for number, size in enumerate([(30, 41), (41, 30), (64, 47), (20, 20), (33, 90), (57, 58)]):
            noise = generator.integers(-60, 60, size=(*size, 3))
            image = Image.fromarray((colour + noise).astype(np.uint8))
            exif = Image.Exif()
            exif[0x0112] = 6 if number == 0 else 1
            image.save(folder / f"class {label}" / f"{number}.jpg", quality=90, exif=exif)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run on photographs and one on features."""
    place = tmp_path_factory.mktemp("export")
    images = write_photographs(place / "photographs")
    # Exported models get images that are decoded at full size.
    transform = "crop:size=16,mean=[0.4,0.5,0.6],std=[0.2,0.3,0.4],draft=false"
    run({**image_settings(images, epochs=1), "transform": transform}, place / "run")
    run(settings_for(write_features(place / "features.npz"), epochs=1), place / "on features")
    return place


def exported(folder, out, **settings):
    path = export_run(folder, out, ExportSettings(**settings))
    return path, json.loads(path.with_name(f"{path.name}.json").read_text())


def run_onnx(path, description, inputs):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run([description["output"]["name"]], {description["input"]["name"]: inputs})[0]


def script_of(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch calls TorchScript deprecated
        return torch.jit.load(path)


def own_embeddings(folder):
    """The run's own embeddings of its test items, and their positions."""
    loaded = load_run(folder)
    test = loaded.prepared.split.test
    return embed(loaded.model, loaded.items, test).numpy(), loaded, test


@pytest.mark.parametrize("form", ["onnx", "torchscript"])
def test_image_files_are_embedded_as_the_run_embeds_them_with_the_files_beside_the_model(folder, tmp_path, form):
    path, description = exported(folder / "run", tmp_path / f"birds{export.SUFFIXES[form]}", format=form)
    own, loaded, test = own_embeddings(folder / "run")
    spec = importlib.util.spec_from_file_location("beside", tmp_path / "preprocess.py")
    assert spec is not None
    assert spec.loader is not None
    beside = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(beside)
    files = [loaded.prepared.catalogue.reader.path(index) for index in test]  # type: ignore[attr-defined]  # files
    inputs = np.concatenate([beside.preprocess(file, description) for file in files])
    assert description["input"]["shape"] == ["batch", *inputs.shape[1:]]
    assert inputs.dtype == description["input"]["dtype"]
    for rows in (1, 2, 3, len(inputs)):  # any number of rows
        if form == "onnx":
            embeddings = run_onnx(path, description, inputs[:rows])
        else:
            embeddings = script_of(path)(torch.from_numpy(inputs[:rows])).numpy()
        assert embeddings.dtype == np.float32
        difference = np.linalg.norm(embeddings - own[:rows], axis=1) / np.linalg.norm(own[:rows], axis=1)
        assert difference.max() < description["agreement"]["tolerance"] == 1e-4
    assert description["output"]["shape"] == ["batch", own.shape[1]]
    assert description["recall@1"]["exported"] == pytest.approx(description["recall@1"]["run"], abs=1e-9)
    assert description["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_torchscript_runs_in_a_process_that_imports_torch_alone(folder, tmp_path):
    path, _ = exported(folder / "run", tmp_path / "model.pt", format="torchscript", measure=False)
    code = (
        "import sys, warnings, torch\n"
        "warnings.simplefilter('ignore')\n"
        f"model = torch.jit.load({str(path)!r})\n"
        "print(tuple(model(torch.zeros(5, 16, 16, 3, dtype=torch.uint8)).shape), 'unseen' in sys.modules)\n"
    )
    done = run_code(code, cwd=tmp_path)
    assert done.stdout.strip() == "(5, 6) False", done.stderr


def test_unit_length_divides_the_runs_embeddings_by_their_length(folder, tmp_path):
    path, description = exported(folder / "on features", tmp_path / "unit.onnx", unit_length=True)
    own, loaded, test = own_embeddings(folder / "on features")
    features = loaded.prepared.catalogue.reader.features[test]  # type: ignore[attr-defined]  # a run on features
    unit = own / np.linalg.norm(own, axis=1, keepdims=True)
    assert np.abs(run_onnx(path, description, features) - unit).max() < 1e-5
    assert description["input"]["dtype"] == "float32"
    assert description["preprocessing"] is None
    assert description["pretraining"] == "not stated: features of a file"
    assert not (tmp_path / "preprocess.py").exists()


@pytest.mark.parametrize(("name", "precision"), [("run", "fp16"), ("run", "int8"), ("on features", "int8")])
def test_lower_precision_states_what_it_costs(folder, tmp_path, name, precision):
    path, description = exported(folder / name, tmp_path / "low.onnx", precision=precision)
    assert description["agreement"]["tolerance"] is None
    assert 0 < description["agreement"]["largest_relative_difference"] < (0.01 if precision == "fp16" else 1)
    recall = description["recall@1"]
    assert recall["run"] == json.loads((folder / name / "result.json").read_text())["scores"]["numbers"]["recall@1"]
    assert recall["queries"] == len(load_run(folder / name).prepared.split.queries)
    assert 0 <= recall["exported"] <= 1
    assert path.stat().st_size > 0


def test_grey_images_in_memory_go_in_as_bytes(tmp_path):
    settings = {"data": "glyphs:size=16", "model": "convnet:base=4", "epochs": 0, "loss": None, "embedding_size": None}
    run(settings, tmp_path / "run")
    path, description = exported(tmp_path / "run", None, measure=False)
    assert path == tmp_path / "run" / "model.onnx"
    own, loaded, test = own_embeddings(tmp_path / "run")
    pixels = loaded.prepared.catalogue.reader.pixels[test[:3], :, :, None]  # type: ignore[attr-defined]  # in memory
    assert np.allclose(run_onnx(path, description, pixels), own[:3], atol=1e-4)
    assert description["recall@1"] is None


def test_a_model_that_computes_something_else_is_not_written_and_an_older_file_stays(folder, tmp_path, monkeypatch):
    path, _ = exported(folder / "on features", tmp_path / "model.onnx", measure=False)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(export, "_runner", lambda content, settings: lambda inputs: np.ones((len(inputs), 6), "f4"))
    with pytest.raises(ConfigError, match="differs from the run by .* of the embeddings' length, more than 1e-04"):
        exported(folder / "on features", path, measure=False)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"onnxruntime, which is not installed.*pip install 'unseen\[onnx\]'"):
        ExportSettings(format="onnx")
    ExportSettings(format="torchscript")


def test_the_command_prints_what_it_wrote_and_refuses_the_rest_in_one_sentence(folder):
    _, words = unseen("export", "on features", "--out", "made/model.onnx", "--unit-length", cwd=folder)
    assert "wrote made/model.onnx" in words
    assert "batch x 10 float32" in words
    assert "recall@1 on" in words
    out, _ = unseen("export", "on features", "--format", "torchscript", "--no-measure", "--json", cwd=folder)
    assert json.loads(out)["file"] == "model.pt"
    for arguments, sentence in (
        (["photographs"], "is not the folder of a finished run"),
        (["run", "--format", "tflite"], "format must be one of 'onnx', 'torchscript'; got 'tflite'"),
        (["run", "--precision", "int4"], "precision must be one of 'fp32', 'fp16', 'int8'; got 'int4'"),
        (["run", "--format", "torchscript", "--precision", "int8"], "int8 is for ONNX only"),
        (["run", "--out", "model.pt"], "--out must end in .onnx"),
        (["run", "--out", "features.npz/model.onnx"], "cannot write features.npz/model.onnx"),
    ):
        assert sentence in one_sentence("export", *arguments, cwd=folder)
