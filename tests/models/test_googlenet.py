import pytest
import torch

from unseen.core.errors import ConfigError
from unseen.core.randomness import torch_generator
from unseen.models import GoogLeNet, split_at, stage_names

torchvision = pytest.importorskip("torchvision")


def images():
    return torch.randn(2, 3, 64, 64, generator=torch_generator(0))


def test_features_are_those_of_torchvision_before_its_classifier_with_its_weights(tmp_path):
    whole = torchvision.models.googlenet(weights=None, aux_logits=True, init_weights=False, transform_input=True).eval()
    torch.save(whole.state_dict(), tmp_path / "googlenet.pth")
    model = GoogLeNet(weights=str(tmp_path / "googlenet.pth")).eval()
    assert model.has_pretrained_weights
    assert torch.allclose(whole.fc(model(images())), whole(images()), atol=1e-6)


def test_it_is_its_stages_one_after_the_other():
    model = GoogLeNet().eval()
    assert stage_names(model)[:2] == ["scale", "conv1"]
    for name in ("conv1", "inception4a", "inception5a", "flatten"):
        cut = split_at(model, name, images())
        assert torch.equal(cut.upper(cut.lower(images())), model(images()))


def test_training_gives_features_without_dropout():
    model = GoogLeNet()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()
    assert torch.equal(model(images()), model(images()))


def test_what_cannot_be_built_is_named():
    with pytest.raises(ConfigError, match="pretrained must be one of 'hub', None; got 'lite0'"):
        GoogLeNet(pretrained="lite0")
    with pytest.raises(ConfigError, match="weights and pretrained were both given"):
        GoogLeNet(weights="a.pth", pretrained="hub")
    with pytest.raises(ConfigError, match="channels must be one of 3; got 1"):
        GoogLeNet(channels=1)
