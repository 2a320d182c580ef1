"""Weights from files that people have, and what is said when the hub cannot be reached."""

import hashlib
import re

import pytest
import torch
from safetensors.torch import save_file

from unseen.core.errors import ConfigError, DataError
from unseen.core.randomness import torch_generator
from unseen.models import build_embedder
from unseen.models.pretrained.weights import download
from unseen.models.timm_backbone import find_cached_download, hub_is_reachable

timm = pytest.importorskip("timm")


def inputs():
    return torch.randn(1, 3, 32, 32, generator=torch_generator(0))


def test_old_resnet_files_of_torchvision_fit_timms(tmp_path):
    torchvision = pytest.importorskip("torchvision")
    theirs = torchvision.models.resnet18(weights=None).eval()
    # Files from before the counters of batch norm existed.
    old = {name: each for name, each in theirs.state_dict().items() if not name.endswith("num_batches_tracked")}
    torch.save(old, tmp_path / "resnet18.pth")
    model = build_embedder(
        f"resnet18:weights={tmp_path / 'resnet18.pth'}", input_shape=(3, 32, 32), embedding_size=None
    ).eval()
    assert torch.allclose(theirs.fc(model(inputs())), theirs(inputs()), atol=1e-5)


def test_old_densenet_files_of_torchvision_fit_timms(tmp_path):
    torchvision = pytest.importorskip("torchvision")
    theirs = torchvision.models.densenet121(weights=None).eval()
    old = {re.sub(r"(denselayer\d+\.\w+)([12])\.", r"\1.\2.", name): each for name, each in theirs.state_dict().items()}
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    torch.save(old, tmp_path / "densenet121.pth")
    model = build_embedder(
        f"densenet121:weights={tmp_path / 'densenet121.pth'}", input_shape=(3, 32, 32), embedding_size=None
    ).eval()
    assert torch.allclose(theirs.classifier(model(inputs())), theirs(inputs()), atol=1e-5)


def test_a_checkpoint_of_a_training_script_gives_its_backbone(tmp_path):
    source = build_embedder("resnet10t", input_shape=(3, 32, 32), embedding_size=None, seed=5).eval()
    file = {f"module.{name}": each for name, each in source.backbone.get_submodule("body").state_dict().items()}
    torch.save({"epoch": 3, "state_dict": file | {"module.projection.weight": torch.ones(2)}}, tmp_path / "c.pth.tar")
    model = build_embedder(
        f"resnet10t:weights={tmp_path / 'c.pth.tar'}", input_shape=(3, 32, 32), embedding_size=None
    ).eval()
    assert torch.equal(model(inputs()), source(inputs()))
    (tmp_path / "w.npz").touch()
    with pytest.raises(DataError, match=r"cannot read weights from 'w.npz'\. A \.safetensors or \.pth file is needed"):
        build_embedder(f"resnet10t:weights={tmp_path / 'w.npz'}", input_shape=(3, 32, 32), embedding_size=None)


@pytest.fixture
def offline(monkeypatch):
    """A machine whose every connection is refused, wherever it would go."""
    import socket

    def refused(*arguments, **options):
        raise OSError("no network in tests")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    monkeypatch.setattr("unseen.models.pretrained.weights.ANSWER_SECONDS", 0.2)
    monkeypatch.setattr("unseen.models.timm_backbone.ANSWER_SECONDS", 0.2)


@pytest.mark.parametrize("name", ["resnet18", "vit_small_patch16_224.dino", "bn_inception", "googlenet"])
def test_a_hub_out_of_reach_is_one_sentence_with_a_way_on(offline, tmp_path, monkeypatch, name, capfd):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("unseen.models.timm_backbone.find_cached_download", lambda repository: None)
    with pytest.raises(ConfigError) as caught:
        build_embedder(f"{name}:pretrained=hub", input_shape=(3, 32, 32), embedding_size=None)
    assert f"Set a local file: {name}:weights=FILE" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "Retrying" not in capfd.readouterr().err


def test_the_hub_does_not_answer_without_a_network(offline):
    assert hub_is_reachable() is False


def test_what_an_earlier_download_left_is_used_without_a_network(offline, tmp_path, monkeypatch):
    source = build_embedder("resnet18", input_shape=(3, 32, 32), embedding_size=None, seed=5).eval()
    save_file(source.backbone.get_submodule("body").state_dict(), tmp_path / "model.safetensors")
    asked = []

    def earlier(repository):
        asked.append(repository)
        return str(tmp_path / "model.safetensors")

    monkeypatch.setattr("unseen.models.timm_backbone.find_cached_download", earlier)
    model = build_embedder("resnet18.tv_in1k:pretrained=hub", input_shape=(3, 32, 32), embedding_size=None).eval()
    assert asked == ["timm/resnet18.tv_in1k"]
    assert torch.equal(model(inputs()), source(inputs()))


def test_no_repository_has_no_earlier_download():
    assert find_cached_download(None) is None


def test_a_fetched_file_is_kept_and_one_with_another_sum_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    (tmp_path / "weights.bin").write_bytes(b"seven")
    address = (tmp_path / "weights.bin").as_uri()
    with pytest.raises(ConfigError, match="could not be downloaded: invalid hash value.*Use another file"):
        download(address, "0" * 64, hint="Use another file.")
    assert not (tmp_path / "hub" / "checkpoints" / "weights.bin").exists()
    right = hashlib.sha256(b"seven").hexdigest()
    assert download(address, right, hint="").read_bytes() == b"seven"
    (tmp_path / "weights.bin").unlink()
    assert download(address, right, hint="").read_bytes() == b"seven"
