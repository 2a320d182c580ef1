"""The backbones of the papers: each has the stated facts, with random weights and without a download."""

import pytest
import torch

from unseen.core.randomness import torch_generator
from unseen.core.registry import REGISTRIES
from unseen.models import backbone_facts, build_embedder, input_normalization

timm = pytest.importorskip("timm")

NAMES = sorted(backbone_facts())
# The smallest image that a network can take is a matter of its strides.
SIZES = {"inception_v3": 96, "vit_small_patch14_reg4_dinov2": 56}


@pytest.mark.parametrize("name", NAMES)
def test_a_backbone_of_the_papers_gives_its_width_and_takes_a_gradient(name):
    size = SIZES.get(name, 64)
    model = build_embedder(name, input_shape=(3, size, size), embedding_size=None, batch_norm="frozen").train()
    features = model(torch.randn(1, 3, size, size, generator=torch_generator(0)))
    assert features.shape == (1, backbone_facts()[name].width)
    assert model.width == backbone_facts()[name].width
    features.square().sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients
    assert all(torch.isfinite(each).all() for each in gradients)
    has_batch_norm = any(isinstance(each, torch.nn.modules.batchnorm._BatchNorm) for each in model.modules())
    assert has_batch_norm == (backbone_facts()[name].batch_norm == "frozen statistics")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REGISTRIES["backbone"]])
def test_the_stated_normalisation_is_the_one_of_timms_weights(name):
    settings = timm.models.get_pretrained_cfg(name)
    assert input_normalization(name) == {"mean": list(settings.mean), "std": list(settings.std)}


def test_backbones_outside_the_table_have_the_normalisation_of_timm_or_none():
    assert input_normalization("resnet34") == {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
    assert input_normalization("convnet") == {}


@pytest.mark.parametrize("size", [48, 96])
def test_a_transformer_of_one_size_takes_others(size):
    model = build_embedder("vit_small_patch16_224.dino", input_shape=(3, size, size), embedding_size=None).eval()
    assert model(torch.ones(1, 3, size, size)).shape == (1, 384)
