"""Embedders, weights and backbones of timm: what goes beyond the contract of backbones."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.contracts.test_backbone_contract import made
from unseen.core.errors import ConfigError, DataError
from unseen.models import Embedder, Identity, build_embedder, model_record


def test_trained_batch_norm_moves_its_statistics():
    model, inputs = made("convnet", batch_norm="trained")
    before = model.state_dict()["backbone.blocks.1.running_mean"].clone()
    model.train()(inputs)
    assert not torch.equal(before, model.state_dict()["backbone.blocks.1.running_mean"])


def test_no_head_leaves_the_features_as_they_are():
    model = build_embedder("identity", input_shape=(1, 4, 4), embedding_size=None)
    assert torch.equal(model(torch.ones(2, 1, 4, 4)), torch.ones(2, 16))


def test_weights_come_from_safetensors_and_from_plain_pth_files(tmp_path):
    source, inputs = made("timm", seed=7)
    body = source.backbone.get_submodule("body").state_dict()
    save_file(body, tmp_path / "w.safetensors")
    torch.save({"state_dict": {f"module.{key}": value for key, value in body.items()}}, tmp_path / "w.pth")
    for file in ("w.safetensors", "w.pth"):
        model = build_embedder(
            f"resnet10t:weights={tmp_path / file}", input_shape=(3, 32, 32), embedding_size=None, seed=1
        )
        assert torch.equal(model.eval()(inputs), source.eval().backbone(inputs))
        assert model.freezes_batch_norm


class Payload:
    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return Path.touch, (self.canary,)


def test_a_weights_file_with_code_in_it_is_refused_and_not_run(tmp_path):
    torch.save({"a": Payload(tmp_path / "canary")}, tmp_path / "bad.pth")
    with pytest.raises(DataError, match="does not hold plain tensors"):
        build_embedder(f"resnet10t:weights={tmp_path / 'bad.pth'}", input_shape=(3, 32, 32), embedding_size=None)
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    ("content", "sentence"), [(b"", "readable safetensors"), (b"\xff" * 64, "readable safetensors")]
)
def test_a_damaged_safetensors_file_is_named(tmp_path, content, sentence):
    (tmp_path / "bad.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        build_embedder(
            f"resnet10t:weights={tmp_path / 'bad.safetensors'}", input_shape=(3, 32, 32), embedding_size=None
        )


def test_wrong_weights_are_named(tmp_path):
    with pytest.raises(DataError, match="no weights file"):
        build_embedder("resnet10t:weights=nowhere.pth", input_shape=(3, 32, 32), embedding_size=None)
    save_file({"conv1.weight": torch.zeros(1)}, tmp_path / "few.safetensors")
    with pytest.raises(DataError, match="lacks .* tensors of the backbone"):
        build_embedder(
            f"resnet10t:weights={tmp_path / 'few.safetensors'}", input_shape=(3, 32, 32), embedding_size=None
        )


def test_a_vision_transformer_takes_images_of_any_size():
    model = build_embedder("vit_tiny_patch16_224", input_shape=(3, 96, 96), embedding_size=None).eval()
    assert model(torch.ones(1, 3, 96, 96)).shape == (1, 192)


def test_an_embedder_on_another_backbone_shares_its_head_and_its_policy():
    model, inputs = made("convnet", batch_norm="frozen")
    other = model.with_backbone(model.backbone)
    assert other.head is model.head
    assert other.width == model.width
    assert not other.train().get_submodule("backbone.blocks.1").training
    assert torch.equal(other.eval()(inputs), model.eval()(inputs))


def test_unknown_models_and_misfits_are_named():
    with pytest.raises(ConfigError, match="unknown model 'resnet5O'; did you mean 'resnet50'"):
        model_record("resnet5O")
    with pytest.raises(ConfigError, match="needs images, the data holds features"):
        build_embedder("convnet", input_shape=(12,), embedding_size=4)
    with pytest.raises(ConfigError, match="pretrained must be one of 'lite0', .*'hub', None; got 'imagenet'"):
        build_embedder("resnet10t:pretrained=imagenet", input_shape=(3, 32, 32), embedding_size=4)
    with pytest.raises(ConfigError, match="batch_norm must be one of"):
        Embedder(Identity(input_shape=(3,)), batch_norm="melted")  # type: ignore[arg-type]  # wrong on purpose
