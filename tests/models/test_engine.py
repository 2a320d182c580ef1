"""The inference engine returns what the network returns in evaluation mode, and leaves the network alone."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from tests.helpers.small_runs import write_images
from unseen.core.errors import ConfigError, DataError
from unseen.data import CatalogueDataset, FeatureArray, ImagesInMemory, ItemKey, Plain, evaluation_batches
from unseen.data.catalogue import Catalogue
from unseen.data.sources.folder import folder
from unseen.models import Embedder, Engine, build_embedder, embed, split_at
from unseen.models import engine as engine_module
from unseen.models.backbone import Backbone, Identity
from unseen.models.engine import TOLERANCE, EngineChoice, fastest_engine, rows_per_step
from unseen.models.folding import folded

needs_onnx = pytest.mark.skipif(not engine_module.has_onnx(), reason="the extra onnx is not installed")
SIZE = 48


def dataset_of(reader: ImagesInMemory | FeatureArray) -> CatalogueDataset:
    labels, ids = np.zeros(len(reader), np.int64), tuple(map(str, range(len(reader))))
    return CatalogueDataset(Catalogue(name="drawn", reader=reader, labels=labels, class_names=("one",), ids=ids))


@pytest.fixture(scope="module")
def images() -> CatalogueDataset:
    pixels = np.random.default_rng(0).integers(0, 256, (11, SIZE, SIZE, 3), dtype=np.uint8)
    return dataset_of(ImagesInMemory(pixels))


def model_of(name: str, size: int = SIZE) -> Embedder:
    model = build_embedder(name, input_shape=(3, size, size), embedding_size=16)
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):  # statistics of a trained network: neither zeros nor ones
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.copy_(torch.randn(module.num_features, generator=generator) * 0.1)
            module.running_var.copy_(torch.rand(module.num_features, generator=generator) + 0.5)
    return model


def plain_rows(model: nn.Module, dataset: CatalogueDataset) -> Tensor:
    inputs = torch.cat([dataset[ItemKey(index, None)].inputs for index in range(len(dataset))])
    with torch.no_grad():
        return torch.as_tensor(model.eval()(inputs))


def largest_difference(first: Tensor, second: Tensor) -> float:
    return (normalize(first.flatten(1)) - normalize(second.flatten(1))).abs().max().item()


FAMILIES = (
    "convnet",
    "bn_inception",
    "tf_efficientnet_lite0",  # convolutions with padding SAME, batch norm with its activation
    "mobilenetv2_100",
    "resnet18",
    "convnext_atto",  # no batch norm
    "resnetv2_50",  # standardises the weights of its convolutions
    "densenet121",  # batch norm before the convolution
    "vit_tiny_patch16_224",
)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_engine_returns_what_the_network_returns(name: str, images: CatalogueDataset) -> None:
    pytest.importorskip("timm")
    model = model_of(name)
    rows = embed(model, images, np.arange(len(images)), engine="torch")
    assert largest_difference(rows, plain_rows(model, images)) < 1e-5


@needs_onnx
@pytest.mark.parametrize("name", ["convnet", "tf_efficientnet_lite0", "resnet18", "vit_tiny_patch16_224"])
def test_onnx_runtime_agrees_within_the_stated_tolerance(name: str, images: CatalogueDataset) -> None:
    pytest.importorskip("timm")
    model = model_of(name).train()
    rows = embed(model, images, np.arange(len(images)), engine="onnx")
    assert model.training
    assert largest_difference(rows, plain_rows(model, images)) < TOLERANCE


@needs_onnx
def test_both_engines_compute_a_part_below_a_cut(images: CatalogueDataset) -> None:
    pytest.importorskip("timm")
    model = model_of("resnet18")
    lower = split_at(model.backbone, "layer4", images[ItemKey(0, None)].inputs).lower
    expected = plain_rows(lower, images)
    names: tuple[EngineChoice, ...] = ("torch", "onnx")
    for engine in names:
        (rows,) = Engine(lower, engine).rows(images, evaluation_batches(range(len(images)), len(images)))
        assert rows.shape == expected.shape
        assert largest_difference(rows, expected) < TOLERANCE


@pytest.mark.parametrize("policy", ["frozen", "trained"])
def test_weights_and_training_mode_of_every_module_stay_as_they_were(policy: str, images: CatalogueDataset) -> None:
    model = model_of("convnet")
    model.freezes_batch_norm = policy == "frozen"
    model.train()
    model.head.eval()
    modes = [module.training for module in model.modules()]
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    strides = [parameter.stride() for parameter in model.parameters()]
    embed(model, images, np.arange(len(images)))
    assert [module.training for module in model.modules()] == modes
    assert [parameter.stride() for parameter in model.parameters()] == strides
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_features_pass_an_identity_unchanged() -> None:
    features = np.random.default_rng(1).normal(size=(700, 5)).astype(np.float32)
    features[3] = 1e30  # a conversion would show
    dataset = dataset_of(FeatureArray(features))
    names: tuple[EngineChoice, ...] = ("auto", "torch", "onnx") if engine_module.has_onnx() else ("auto", "torch")
    for engine in names:
        rows = embed(Identity(input_shape=(5,)), dataset, np.arange(700), engine=engine)
        assert np.array_equal(rows.numpy(), features)


def test_rows_depend_on_their_batch_and_not_on_the_batches_before_it(images: CatalogueDataset) -> None:
    model = model_of("convnet")
    batches = evaluation_batches(range(len(images)), 4)
    together = list(Engine(model, "torch").rows(images, batches))
    alone = [next(Engine(model, "torch").rows(images, [batch])) for batch in batches]
    assert all(torch.equal(first, second) for first, second in zip(together, alone, strict=True))


def test_threads_compute_what_one_thread_computes_and_leave_the_number_of_threads(images: CatalogueDataset) -> None:
    model, batches = model_of("convnet"), evaluation_batches(range(len(images)), 2)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        together = torch.cat(list(Engine(model, "torch").rows(images, batches)))
        assert torch.get_num_threads() == 3
        first = next(Engine(model, "torch").rows(images, batches))  # and then stops
        assert torch.get_num_threads() == 3
        torch.set_num_threads(1)
        alone = torch.cat(list(Engine(model, "torch").rows(images, batches)))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(together, alone)
    assert torch.equal(first, alone[:2])


class _Reused(Backbone):
    """One convolution that runs twice, and one whose output is used beside its batch norm."""

    width, has_pretrained_weights = 4, False

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 4, 3)
        self.norm, self.other = nn.BatchNorm2d(3), nn.BatchNorm2d(4)

    def forward(self, inputs: Tensor) -> Tensor:
        inputs = self.norm(self.first(self.first(inputs)))
        raw = self.second(inputs)
        return (self.other(raw) + raw).mean((2, 3))


def test_what_cannot_be_folded_runs_as_it_is() -> None:
    network = _Reused().eval()
    for norm in (network.norm, network.other):
        assert norm.running_mean is not None
        norm.running_mean.fill_(0.7)
    inputs = torch.randn(5, 3, 12, 12)
    with torch.no_grad():
        expected = network(inputs)
        assert torch.allclose(folded(network, inputs)(inputs), expected, atol=1e-6)


def test_a_folded_copy_has_no_batch_norm_left() -> None:
    pytest.importorskip("timm")
    fast = folded(model_of("tf_efficientnet_lite0").train(), torch.randn(1, 3, SIZE, SIZE))
    assert not any(isinstance(module, nn.BatchNorm2d) for module in fast.modules())
    assert not any(module.training for module in fast.modules())


def test_a_network_that_cannot_be_converted_is_computed_by_torch_unless_onnx_was_asked_for(
    images: CatalogueDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(network: nn.Module, example: Tensor) -> bytes:
        raise ConfigError("this network cannot be exported to ONNX")

    monkeypatch.setattr(engine_module, "to_onnx", refuse)
    monkeypatch.setattr(engine_module, "fastest_engine", lambda count, shape: "onnx")
    monkeypatch.setattr(engine_module, "has_onnx", lambda: True)
    model = model_of("convnet")
    rows = embed(model, images, np.arange(len(images)), engine="auto")
    assert largest_difference(rows, plain_rows(model, images)) < 1e-5
    pytest.importorskip("onnxruntime")
    with pytest.raises(ConfigError, match="cannot be exported"):
        embed(model, images, np.arange(len(images)), engine="onnx")


def test_an_engine_that_is_not_installed_or_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "has_onnx", lambda: False)
    with pytest.raises(ConfigError, match="not installed"):
        Engine(nn.Identity(), "onnx")
    with pytest.raises(ConfigError, match="engine"):
        Engine(nn.Identity(), "tensorrt")  # type: ignore[arg-type]
    assert fastest_engine(10**9, (3, 224, 224)) == "torch"


def test_few_or_small_images_are_not_worth_a_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "has_onnx", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [fastest_engine(count, (3, 160, 160)) for count in (100, 100_000)] == ["torch", "onnx"]
    assert [fastest_engine(100_000, shape) for shape in ((32, 32), (512,), ())] == ["torch", "torch", "torch"]


def test_steps_are_bounded_in_memory() -> None:
    cpu = torch.device("cpu")
    for size in (8, 100, 160, 224, 333, 448):
        rows = rows_per_step((3, size, size), cpu)
        assert 8 <= rows <= 256
        assert rows == 8 or rows * size * size <= 16 * 160 * 160
    assert rows_per_step((3, 10_000, 10_000), cpu) == 8
    assert rows_per_step((0,), cpu) == 256


def test_a_broken_image_is_reported_in_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    write_images(tmp_path / "images")
    broken = sorted((tmp_path / "images").rglob("*.*"))[2]
    dataset = CatalogueDataset(folder(path=str(tmp_path / "images")), Plain(size=32))
    broken.write_bytes(broken.read_bytes()[:40])
    with pytest.raises(DataError, match=broken.name) as problem:
        embed(model_of("convnet", 32), dataset, np.arange(len(dataset)))
    assert "\n" not in problem.value.message


def test_an_interrupt_leaves_the_model_and_no_thread_behind(images: CatalogueDataset) -> None:
    import threading

    model = model_of("convnet").train()

    def interrupt(done: int, total: int, message: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(model, images, np.arange(len(images)), progress=interrupt)
    assert model.training
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("unseen-loader")]
