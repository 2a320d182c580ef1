"""A backbone in two parts is the backbone, bit for bit, whatever its family."""

import pytest
import torch
from torch import nn

from unseen.core.errors import ConfigError
from unseen.models import Backbone, build_embedder, default_cut, sequential_steps, split_at, stage_names

FAMILIES = {
    "convnet:base=4": 32,
    "tf_efficientnet_lite0": 32,
    "efficientnet_b0": 32,
    "resnet18": 32,
    "resnetv2_18": 32,
    "densenet121": 32,
    "vit_tiny_patch16_224": 32,
    "vit_small_patch32_224": 32,
    "inception_v3": 80,
    "bn_inception": 32,
    "googlenet": 32,
}


def backbone_of(model, size):
    return build_embedder(model, input_shape=(3, size, size), embedding_size=4).backbone.eval()


def images(size, count=2):
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("model", FAMILIES)
def test_the_two_parts_one_after_the_other_are_the_whole_to_the_last_bit(model):
    backbone, inputs = backbone_of(model, FAMILIES[model]), images(FAMILIES[model])
    names = stage_names(backbone)
    with torch.inference_mode():
        whole = backbone(inputs)
        for stage in {names[1], names[-1], default_cut(model.split(":")[0]) or "none"}:
            lower, upper = split_at(backbone, stage, inputs)
            assert torch.equal(upper.eval()(lower.eval()(inputs)), whole)
            assert whole.shape[1] == upper.width


@pytest.mark.parametrize("model", FAMILIES)
def test_the_upper_part_holds_the_parameters_above_the_cut_themselves_and_no_other(model):
    backbone, inputs = backbone_of(model, FAMILIES[model]), images(FAMILIES[model])
    cut = default_cut(model.split(":")[0])
    assert cut is not None
    lower, upper = split_at(backbone, cut, inputs)
    above = {id(parameter) for parameter in upper.parameters()}
    assert above
    assert above < {id(parameter) for parameter in backbone.parameters()}
    upper.train()(lower(inputs)).square().sum().backward()
    touched = {id(parameter) for parameter in backbone.parameters() if parameter.grad is not None}
    if not model.startswith("vit"):  # below a transformer's blocks stands the whole of it
        assert not above & {id(parameter) for parameter in lower.parameters()}
    assert above <= touched


def test_the_activations_of_lite0_at_160_pixels_below_its_last_two_stages_are_112_x_10_x_10():
    backbone = backbone_of("tf_efficientnet_lite0", 160)
    lower, _ = split_at(backbone, "blocks.5", images(160, 1))
    assert lower(images(160, 1)).shape == (1, 112, 10, 10)


def test_a_stage_may_be_named_without_its_number():
    backbone = backbone_of("resnet18", 32)
    by_stage, by_step = (split_at(backbone, name, images(32)).upper for name in ("layer4", "layer4.0"))
    assert [name for name, _ in by_stage.named_children()] == [name for name, _ in by_step.named_children()]


@pytest.mark.parametrize(
    ("stage", "words"), [("layer5", "did you mean 'layer"), ("conv1", "its stages: bn1, act1"), ("layer", "its stages")]
)
def test_an_unknown_stage_is_refused_with_those_that_are_known(stage, words):
    with pytest.raises(ConfigError, match=f"cannot be cut at '{stage}'.*{words}"):
        split_at(backbone_of("resnet18", 32), stage, images(32))


class Twisted(Backbone):
    """Children that are not run one after the other."""

    width, has_pretrained_weights = 3, False

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)

    def forward(self, inputs):
        return (self.second(self.first(inputs)) + inputs).mean((2, 3))


def test_a_backbone_with_a_way_around_its_stages_is_refused_not_cut_wrongly():
    with pytest.raises(ConfigError, match="does not run its stages one after the other"):
        split_at(Twisted(), "second", images(8))


def test_steps_are_given_where_they_are_the_whole_and_not_otherwise():
    backbone = build_embedder("convnet:base=4", input_shape=(1, 16, 16), embedding_size=None).backbone
    example = torch.linspace(-1, 1, 256).view(1, 1, 16, 16)
    assert [name for name, _ in sequential_steps(backbone, example)] == ["blocks.0", "blocks.1", "blocks.2", "flatten"]
    assert sequential_steps(Twisted(), images(8)) == []


def test_a_cut_leaves_the_modes_of_a_backbone_as_they_were():
    backbone = backbone_of("resnet18", 32)
    backbone.body.layer1.train()
    split_at(backbone, "layer4", images(32))
    assert backbone.body.layer1.training
    assert not backbone.body.layer4.training


def test_the_identity_has_nowhere_to_be_cut():
    with pytest.raises(ConfigError, match="its stages: none"):
        split_at(build_embedder("identity", input_shape=(3,), embedding_size=2).backbone, "head", torch.ones(1, 3))
