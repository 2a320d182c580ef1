"""Several backbones side by side."""

import pytest
import torch
from torch.nn.functional import normalize

from unseen.core.errors import ConfigError
from unseen.core.randomness import torch_generator
from unseen.models import Joined, build_embedder, input_normalization, model_record, pretraining_of, split_at
from unseen.models.pretrained.renormalize import Renormalize

pytest.importorskip("timm")

SHAPE = (3, 32, 32)
PIXELS = torch.rand(4, *SHAPE, generator=torch_generator(0))
TWO = "joined:[tf_efficientnet_lite0,resnet10t]"


def normalised(name):
    settings = input_normalization(name)
    mean, std = (torch.tensor(settings[key]).reshape(3, 1, 1) for key in ("mean", "std"))
    return (PIXELS - mean) / std


def joined(record):
    return build_embedder(record, input_shape=SHAPE, embedding_size=None).eval().backbone


def test_features_are_those_of_each_backbone_on_its_own_normalisation_at_one_length():
    model = joined(TWO)
    with torch.inference_mode():
        features = model(normalised("tf_efficientnet_lite0"))
        parts = [
            normalize(member(normalised(name)))
            for member, name in zip(model.members, ("tf_efficientnet_lite0", "resnet10t"), strict=True)
        ]
    assert model.width == 1280 + 512
    assert input_normalization("tf_efficientnet_lite0") != input_normalization("resnet10t")
    # Converting a normalised image rounds once more than normalising its pixels.
    assert torch.allclose(features, torch.cat(parts, dim=1) * (model.width / 2) ** 0.5, atol=3e-4)
    assert features.square().mean(dim=1).allclose(torch.ones(4), atol=1e-5)


def test_the_first_known_normalisation_is_that_of_the_inputs():
    assert input_normalization(model_record(TWO)) == input_normalization("tf_efficientnet_lite0")
    assert input_normalization(model_record("joined:[convnet,resnet10t]")) == input_normalization("resnet10t")


def test_renormalised_images_are_those_normalised_directly_up_to_rounding():
    one, two = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), ((0.5, 0.4, 0.3), (0.5, 0.1, 1.0))
    (mean, std), (new_mean, new_std) = (
        [torch.tensor(values, dtype=torch.float64).reshape(3, 1, 1) for values in pair] for pair in (one, two)
    )
    converted = Renormalize(one, two)(((PIXELS.double() - mean) / std).float())
    assert torch.allclose(converted.double(), (PIXELS.double() - new_mean) / new_std, atol=2e-6)


def test_the_short_form_and_the_long_one_are_one_record():
    record = model_record(TWO)
    assert record == model_record("joined:backbones=[tf_efficientnet_lite0,resnet10t]")
    assert record == model_record({"name": "joined", "backbones": ["tf_efficientnet_lite0", "resnet10t"]})
    assert record == model_record(record)
    assert [member["architecture"] for member in record["backbones"]] == ["tf_efficientnet_lite0", "resnet10t"]
    nested = model_record("joined:[(resnet10t:weights=a.pth,channels=3),lite0]")["backbones"]
    assert nested[0]["weights"] == "a.pth"
    assert nested[1]["pretrained"] == "lite0"


def test_the_order_decides_which_features_come_first():
    forwards, backwards = joined(TWO), joined("joined:[resnet10t,tf_efficientnet_lite0]")
    backwards.members.load_state_dict(
        {
            f"{1 - int(key.partition('.')[0])}.{key.partition('.')[2]}": value
            for key, value in forwards.members.state_dict().items()
        }
    )
    with torch.inference_mode():
        one, two = forwards(normalised("tf_efficientnet_lite0")), backwards(normalised("resnet10t"))
    assert torch.allclose(one, torch.cat([two[:, 512:], two[:, :512]], dim=1), atol=1e-5)


def test_what_cannot_be_joined_is_named():
    with pytest.raises(ConfigError, match="backbones must be at least 2"):
        joined("joined:[resnet10t]")
    with pytest.raises(ConfigError, match="unknown model 'resnet5O'"):
        joined("joined:[resnet10t,resnet5O]")
    with pytest.raises(ConfigError, match="needs the setting 'backbones'"):
        joined("joined")
    with pytest.raises(ConfigError, match="cannot be cut at 'blocks.5'"):
        split_at(Joined(backbones=["resnet10t", "resnet18"]), "blocks.5", PIXELS)
    with pytest.raises(ConfigError, match="patches of 14 x 14 pixels"):
        joined("joined:[resnet10t,vit_small_patch14_reg4_dinov2]")


def test_pretraining_is_that_of_every_member_once():
    assert pretraining_of(model_record("joined:[lite0,mobilenet_v2]")) == "ImageNet-1k"
    both = pretraining_of(model_record("joined:[lite0,dinov2_s]"))
    assert both.startswith("ImageNet-1k + LVD-142M")
    assert "MRI" in both
    assert pretraining_of(model_record("resnet18")) == "nothing"
    assert pretraining_of(model_record("resnet18:weights=a.pth")) == "not stated: weights of a local file"
    assert pretraining_of(model_record("googlenet:pretrained=hub")) == "ImageNet-1k"


@pytest.mark.parametrize(
    ("architecture", "images"),
    [
        ("resnet50.tv_in1k", "ImageNet-1k"),
        ("resnet50.a1_in1k", "ImageNet-1k"),
        ("vit_small_patch16_224.augreg_in21k_ft_in1k", "timm's weights augreg_in21k_ft_in1k"),
        ("vit_small_patch16_224.dino", "timm's weights dino"),
        ("vit_small_patch14_dinov2.lvd142m", "timm's weights lvd142m"),
    ],
)
def test_timms_published_weights_say_what_they_were_trained_on_by_their_tag(architecture, images):
    assert pretraining_of({"name": "timm", "architecture": architecture, "pretrained": "hub"}) == images
