import pytest
import torch
from safetensors.torch import save_file

from unseen.core.errors import ConfigError, DataError
from unseen.core.randomness import torch_generator
from unseen.models import BNInception, build_embedder, input_normalization, split_at, stage_names
from unseen.models.bn_inception import MEAN_BLUE_GREEN_RED

# Some layers of the published file, from the table of the port: name, shape of the weight.
PUBLISHED = {
    "conv1_7x7_s2": (64, 3, 7, 7),
    "conv2_3x3_reduce": (64, 64, 1, 1),
    "conv2_3x3": (192, 64, 3, 3),
    "inception_3a_1x1": (64, 192, 1, 1),
    "inception_3a_double_3x3_1": (96, 64, 3, 3),
    "inception_3b_pool_proj": (64, 256, 1, 1),
    "inception_3c_3x3": (160, 128, 3, 3),
    "inception_4a_1x1": (224, 576, 1, 1),
    "inception_4c_double_3x3_2": (160, 160, 3, 3),
    "inception_4d_3x3_reduce": (128, 608, 1, 1),
    "inception_4e_double_3x3_2": (256, 256, 3, 3),
    "inception_5a_3x3": (320, 192, 3, 3),
    "inception_5b_double_3x3_reduce": (192, 1024, 1, 1),
    "inception_5b_pool_proj": (128, 1024, 1, 1),
}


def images(size=64, count=2):
    return torch.randn(count, 3, size, size, generator=torch_generator(0))


def as_published(model):
    """A model's weights as the published file has them: its names, no counters, batch norm as tables of one row."""
    file = {}
    for name, tensor in model.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            file[name.replace(".", "_", 1)] = tensor[None] if "_bn." in name else tensor
    return file | {"last_linear.weight": torch.zeros(1000, 1024), "last_linear.bias": torch.zeros(1000)}


def test_layers_have_the_names_and_shapes_of_the_published_file():
    file = as_published(BNInception())
    for name, shape in PUBLISHED.items():
        assert file[f"{name}.weight"].shape == shape
        assert file[f"{name}.bias"].shape == shape[:1]
        assert file[f"{name}_bn.running_var"].shape == (1, *shape[:1])
    assert sum(name.endswith("_bn.weight") for name in file) == 69
    assert "inception_3c_1x1.weight" not in file
    assert sum(parameter.numel() for parameter in BNInception().parameters()) == 10_270_240


@pytest.mark.parametrize(("size", "last"), [(32, 1), (64, 2), (100, 3), (144, 5), (227, 7)])
def test_features_are_1024_and_the_last_map_is_a_32nd_at_any_size(size, last):
    model = BNInception().eval()
    cut = split_at(model, "pool", images(size))
    assert cut.lower(images(size)).shape == (2, 1024, last, last)
    assert model(images(size)).shape == (2, 1024)


def test_it_can_be_cut_at_every_stage():
    model = BNInception().eval()
    expected = model(images())
    names = stage_names(model)
    assert names[:5] == ["bgr", "conv1", "pool1", "conv2", "pool2"]
    assert names[5] == "inception_3a"
    assert names[-3:] == ["inception_5b", "pool", "flatten"]
    for name in names[1:]:
        cut = split_at(model, name, images())
        assert torch.equal(cut.upper(cut.lower(images())), expected)


def test_pooling_takes_the_mean_or_the_maximum_of_the_last_map():
    average, maximum = BNInception(pooling="average").eval(), BNInception(pooling="max").eval()
    maximum.load_state_dict(average.state_dict())
    last = split_at(average, "pool", images()).lower(images())
    assert torch.allclose(average(images()), last.mean(dim=(2, 3)), atol=1e-6)
    assert torch.equal(maximum(images()), last.amax(dim=(2, 3)))


def test_the_network_sees_blue_green_and_red_on_a_scale_of_255_without_their_means():
    settings = input_normalization("bn_inception")
    pixels = torch.tensor([10.0, 200.0, 90.0])  # red, green, blue
    normalised = (pixels / 255 - torch.tensor(settings["mean"])) / torch.tensor(settings["std"])
    seen = BNInception().bgr(normalised.reshape(1, 3, 1, 1)).flatten()
    assert torch.allclose(seen, torch.tensor([90.0, 200.0, 10.0]) - torch.tensor(MEAN_BLUE_GREEN_RED), atol=1e-4)


@pytest.mark.parametrize("prefix", ["", "module.", "module.model."])
def test_weights_come_from_the_published_file_also_wrapped(tmp_path, prefix):
    source = BNInception().eval()
    for name, buffer in source.named_buffers():
        if name.endswith(("mean", "var")):
            buffer.uniform_(0.5, 1.5, generator=torch_generator(1))
    file = {prefix + name: tensor.contiguous() for name, tensor in as_published(source).items()}
    torch.save({"state_dict": file}, tmp_path / "published.pth")
    model = build_embedder(
        f"bn_inception:weights={tmp_path / 'published.pth'}", input_shape=(3, 64, 64), embedding_size=None, seed=9
    ).eval()
    assert torch.equal(model(images()), source(images()))
    assert model.freezes_batch_norm


def test_weights_come_back_from_a_file_with_our_own_names(tmp_path):
    source = BNInception().eval()
    save_file(source.state_dict(), tmp_path / "own.safetensors")
    assert torch.equal(BNInception(weights=str(tmp_path / "own.safetensors")).eval()(images()), source(images()))


def test_files_that_do_not_fit_and_settings_that_do_not_exist_are_named(tmp_path, monkeypatch):
    file = as_published(BNInception())
    del file["inception_4b_3x3.weight"]
    save_file(file, tmp_path / "few.safetensors")
    with pytest.raises(DataError, match=r"lacks 1 of the .* the first is 'inception_4b.3x3.weight'"):
        BNInception(weights=str(tmp_path / "few.safetensors"))
    with pytest.raises(ConfigError, match="pooling must be one of 'average', 'max'; got 'both'"):
        BNInception(pooling="both")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ConfigError, match="pretrained must be one of 'hub', None; got 'imagenet'"):
        BNInception(pretrained="imagenet")
    with pytest.raises(ConfigError, match="weights and pretrained were both given"):
        BNInception(weights="a.pth", pretrained="hub")
    with pytest.raises(ConfigError, match="channels must be one of 3; got 1"):
        build_embedder("bn_inception", input_shape=(1, 32, 32), embedding_size=None)
