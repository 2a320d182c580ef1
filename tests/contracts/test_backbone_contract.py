"""What every registered backbone must do; a new backbone is tested here by being registered, with one case below."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.contracts.cases import case_of
from unseen.core import registry
from unseen.core.config import build, complete
from unseen.core.errors import ConfigError
from unseen.models import Backbone, Embedder, build_embedder, hash_of_weights

CASES: dict[str, tuple[dict[str, Any], tuple[int, ...], dict[str, Any]]] = {
    "bn_inception": ({}, (3, 32, 32), {"pooling": "both"}),
    "convnet": ({"base": 4}, (1, 16, 16), {"layers": 0}),
    "googlenet": ({}, (3, 32, 32), {"pretrained": "imagenet"}),
    "identity": ({}, (12,), {"input_shape": "wide"}),
    "joined": ({"backbones": ["resnet10t", "tf_efficientnet_lite0"]}, (3, 32, 32), {"backbones": ["resnet10t"]}),
    "timm": ({"architecture": "resnet10t"}, (3, 32, 32), {"architecture": "resnet5O"}),
}
"""Settings, the shape of an input, and a setting that must be refused."""
NAMES = sorted({*registry.backbone.names(), *CASES})


def case(name: str) -> tuple[dict[str, Any], tuple[int, ...], dict[str, Any]]:
    return case_of(CASES, name, "tests/contracts/test_backbone_contract.py")


def made(name: str, **settings: Any) -> tuple[Embedder, Tensor]:
    """A small embedder and four inputs."""
    record, shape, _ = case(name)
    model = build_embedder({"name": name, **record}, input_shape=shape, embedding_size=6, **settings)
    return model, torch.linspace(-1, 1, 4 * torch.Size(shape).numel()).reshape(4, *shape)


def train_for_three_steps(model: Embedder, inputs: Tensor) -> None:
    optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.1)
    for _ in range(3):
        model.train()
        model(inputs).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("name", NAMES)
def test_the_width_is_the_stated_one(name):
    model, inputs = made(name)
    assert isinstance(model.backbone, Backbone)
    features = model.eval().backbone(inputs)
    assert features.shape == (4, model.backbone.width)
    assert features.dtype == torch.float32
    assert model(inputs).shape == (4, 6)
    assert model.width == 6
    assert not model.backbone.has_pretrained_weights


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_gives_the_same_output_twice_and_building_follows_the_seed(name):
    model, inputs = made(name, seed=3)
    model.eval()
    assert torch.equal(model(inputs), model(inputs))
    same, _ = made(name, seed=3)
    other, _ = made(name, seed=4)
    assert torch.equal(model(inputs), same.eval()(inputs))
    assert not torch.equal(model(inputs), other.eval()(inputs))


@pytest.mark.parametrize("name", NAMES)
def test_an_image_is_embedded_alike_alone_and_in_a_batch(name):
    model, inputs = made(name)
    with torch.inference_mode():
        together = model.eval()(inputs)
        alone = torch.cat([model(inputs[row : row + 1]) for row in range(4)])
    assert torch.allclose(together, alone, atol=1e-4)  # kernels are chosen by the size of the batch


@pytest.mark.parametrize("name", NAMES)
def test_frozen_layers_do_not_move_in_three_steps(name):
    model, inputs = made(name, batch_norm="frozen")
    model.backbone.requires_grad_(False)
    backbone, head = hash_of_weights(model.backbone), hash_of_weights(model.head)
    train_for_three_steps(model, inputs)
    assert hash_of_weights(model.backbone) == backbone
    assert hash_of_weights(model.head) != head


@pytest.mark.parametrize("name", NAMES)
def test_frozen_batch_norm_keeps_its_statistics_and_trains_its_affine_part(name):
    model, inputs = made(name, batch_norm="frozen")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    train_for_three_steps(model, inputs)
    after = model.state_dict()
    statistics = [key for key in after if "running_" in key]
    assert statistics or name == "identity"
    assert all(torch.equal(before[key], after[key]) for key in statistics)
    norms = [key.removesuffix("running_mean") + "weight" for key in statistics if key.endswith("running_mean")]
    assert any(not torch.equal(before[key], after[key]) for key in norms) or not statistics


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_of_a_backbone_gets_a_finite_gradient(name):
    model, inputs = made(name)
    model.train()(inputs).square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key


@pytest.mark.parametrize("name", NAMES)
def test_a_backbone_survives_its_record_and_its_state(name):
    settings, shape, _ = case(name)
    supplied = {"input_shape": shape, "channels": shape[0], "size": shape[-1]}
    record = json.loads(json.dumps(complete(registry.backbone, {"name": name, **settings}, supplied)))
    assert complete(registry.backbone, record, supplied) == record
    model, inputs = made(name)
    again = build(registry.backbone, record, supplied)
    again.load_state_dict(model.backbone.state_dict())
    assert torch.equal(again.eval()(inputs), model.eval().backbone(inputs))


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_setting_is_refused_in_one_sentence(name):
    settings, shape, wrong = case(name)
    for change in (wrong, {"colour": 3}):
        with pytest.raises(ConfigError, match=next(iter(change))) as caught:
            build_embedder({"name": name, **settings, **change}, input_shape=shape, embedding_size=6)
        assert "\n" not in caught.value.message
