"""Generalised-mean pooling against a loop, its limits, and in backbones."""

import pytest
import torch

from unseen.core.errors import ConfigError
from unseen.models import build_embedder
from unseen.models.timm_backbone import GeneralizedMean


def maps(seed=0):
    return torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_it_is_the_root_of_the_mean_power():
    pooled = GeneralizedMean(power=3)(maps())
    for image in range(2):
        for channel in range(3):
            values = maps()[image, channel].flatten().tolist()
            expected = (sum(value**3 for value in values) / len(values)) ** (1 / 3)
            assert pooled[image, channel].item() == pytest.approx(expected, rel=1e-12)


def test_power_one_is_the_average_and_a_large_power_the_maximum():
    torch.testing.assert_close(GeneralizedMean(power=1)(maps()), maps().mean((2, 3)))
    torch.testing.assert_close(GeneralizedMean(power=400)(maps()), maps().amax((2, 3)), rtol=0.01, atol=0)


def test_scaling_the_maps_scales_the_features():
    torch.testing.assert_close(GeneralizedMean()(7 * maps()), 7 * GeneralizedMean()(maps()))


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-8, 1e4])
def test_equal_positions_give_a_finite_value_and_gradient(value):
    constant = torch.full((1, 2, 3, 3), value, requires_grad=True)
    pooled = GeneralizedMean()(constant)
    assert torch.allclose(pooled, torch.tensor(max(value, 1e-6)), rtol=1e-4)
    pooled.sum().backward()
    assert constant.grad is not None
    assert constant.grad.isfinite().all()


def test_the_gradient_is_that_of_the_formula():
    inputs = maps().requires_grad_()
    assert torch.autograd.gradcheck(GeneralizedMean(), inputs)


@pytest.mark.parametrize("architecture", ["resnet18", "tf_efficientnet_lite0", "densenet121"])
def test_a_backbone_pools_its_last_map_as_asked(architecture):
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    features = {}
    for pooling in ("own", "average", "max", "gem"):
        setting = "" if pooling == "own" else f":pooling={pooling}"
        model = build_embedder(architecture + setting, input_shape=(3, 64, 64), embedding_size=None).eval()
        with torch.no_grad():
            features[pooling] = model(images)
    torch.testing.assert_close(features["average"], features["own"])
    slack = 1e-5
    assert (features["gem"] >= features["average"] - slack).all()
    assert (features["gem"] <= features["max"] + slack).all()
    assert not torch.allclose(features["gem"], features["average"])


def test_a_transformer_and_an_unknown_pooling_are_refused_with_a_sentence():
    with pytest.raises(ConfigError, match="vit_tiny_patch16_224 has no last map whose pooling could be replaced"):
        build_embedder("vit_tiny_patch16_224:pooling=gem", input_shape=(3, 224, 224), embedding_size=None)
    with pytest.raises(ConfigError, match="it should be 'average', 'max' or 'gem'"):
        build_embedder("resnet18:pooling=sum", input_shape=(3, 64, 64), embedding_size=None)
