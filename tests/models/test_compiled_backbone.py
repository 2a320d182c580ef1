import pytest
import torch
from torch._dynamo.exc import TorchDynamoException

from tests.helpers.small_runs import Stop, image_settings, settings_for, stop_at, write_features, write_images
from unseen.core.errors import ConfigError
from unseen.models import build_embedder
from unseen.models.compiled_backbone import CompiledBackbone
from unseen.runs import prepare, run


@pytest.fixture
def passes(monkeypatch):
    """torch's compiler without the generation of code, which takes most of its time; counts the compiled passes."""
    counted = []
    real = torch.compile

    def compile_and_count(function, **settings):
        compiled = real(function, backend="eager", **settings)

        def counting(*inputs):
            counted.append(torch.is_grad_enabled())
            return compiled(*inputs)

        return counting

    monkeypatch.setattr(torch, "compile", compile_and_count)
    return counted


def test_a_compiled_run_is_the_plain_one_in_training_steps_only_and_resumes(tmp_path, passes):
    settings = image_settings(write_images(tmp_path / "images"), compile=True)
    whole = run(settings, tmp_path / "whole")
    steps = whole["history"][-1]["step"]
    assert passes == [True] * steps  # validation and the final embeddings use the plain backbone
    assert whole["protocol"]["compile"]
    with pytest.raises(Stop):
        run(settings, tmp_path / "parts", save_seconds=0, progress=stop_at(3))
    run(settings, tmp_path / "parts")
    assert (tmp_path / "parts" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_outside_of_the_context_a_backbone_is_as_it_was(passes):
    model = build_embedder("convnet:base=2", input_shape=(3, 8, 8), embedding_size=4)
    names, inputs = list(model.state_dict()), torch.randn(2, 3, 8, 8)
    compiled = CompiledBackbone(model.backbone)
    for count in (1, 2):
        with compiled:
            model(inputs)
            assert list(model.state_dict()) == names
        assert len(passes) == count
    model(inputs)
    assert len(passes) == 2
    assert "forward" not in vars(model.backbone)


def test_a_compiler_that_fails_is_one_sentence(monkeypatch):
    def fail(*inputs):
        raise TorchDynamoException("no such header: Python.h\nand much more")

    monkeypatch.setattr(torch, "compile", lambda function, **settings: fail)
    model = build_embedder("convnet:base=2", input_shape=(3, 8, 8), embedding_size=4)
    words = r"^the model cannot be compiled \(no such header: Python.h\)"
    with pytest.raises(ConfigError, match=words), CompiledBackbone(model.backbone):
        model(torch.randn(2, 3, 8, 8))
    assert "forward" not in vars(model.backbone)


def test_an_error_of_the_model_itself_stays_what_it_is(passes):
    model = build_embedder("convnet:base=2", input_shape=(3, 8, 8), embedding_size=4)
    with pytest.raises(RuntimeError), CompiledBackbone(model.backbone):
        raise RuntimeError("of the model")


def test_a_missing_compiler_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    import torch._inductor.cpp_builder as builder

    def missing():
        raise builder.exc.InvalidCxxCompiler

    monkeypatch.setattr(builder, "get_cpp_compiler", missing)
    settings = image_settings(write_images(tmp_path / "images"), compile=True)
    with pytest.raises(ConfigError, match="takes a C\\+\\+ compiler, and there is none"):
        run(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_frozen_backbone_is_not_compiled(tmp_path):
    settings = settings_for(write_features(tmp_path / "features.npz"), depth="frozen", compile=True)
    with pytest.raises(ConfigError, match="there is no backbone to compile"):
        prepare(settings)
