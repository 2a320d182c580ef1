"""What every registered transform must do; a new transform is tested here by being registered, with one case below."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.contracts.cases import case_of
from unseen.core import registry
from unseen.core.config import build, record_of
from unseen.core.errors import ConfigError
from unseen.data import Transform

SIZE = 8
CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "plain": ({"size": SIZE}, False),
    "crop": ({"size": SIZE, "mean": [0, 0.5, 1]}, True),
}
"""Settings with an output of 8 x 8 pixels, and whether the transform augments."""
NAMES = sorted({*registry.transform.names(), *CASES})


def image(width: int = 60, height: int = 40) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8))


def made(name: str, **changes: Any) -> tuple[Transform, bool]:
    settings, augments = case_of(CASES, name, "tests/contracts/test_transform_contract.py")
    return build(registry.transform, {"name": name, **settings, **changes}), augments


@pytest.mark.parametrize("name", NAMES)
def test_the_tensor_follows_from_the_key_and_not_from_any_global_generator(name):
    transform, augments = made(name)
    first = [transform(image(), key) for key in range(20)]
    torch.manual_seed(1)
    np.random.seed(1)
    state = torch.get_rng_state()
    assert all(torch.equal(transform(image(), key), tensor) for key, tensor in enumerate(first))
    assert torch.equal(torch.get_rng_state(), state)
    assert len({tensor.numpy().tobytes() for tensor in first}) == (20 if augments else 1)


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_has_no_randomness(name):
    transform, _ = made(name)
    first = transform(image(), None)
    for seed in range(10):
        torch.manual_seed(seed)
        np.random.seed(seed)
        assert torch.equal(transform(image(), None), first)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [(60, 40), (40, 60), (8, 8), (1, 1), (1, 300), (300, 1), (5, 4)], ids=str)
@pytest.mark.parametrize("key", [None, 0, 2**62])
def test_the_output_is_a_dense_float32_image_of_the_stated_size(name, size, key):
    tensor = made(name)[0](image(*size), key)
    assert tensor.shape == (3, SIZE, SIZE)
    assert tensor.dtype == torch.float32
    assert tensor.permute(1, 2, 0).is_contiguous()
    assert tensor.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_the_image_is_not_changed_and_the_tensor_is_a_copy(name):
    transform, _ = made(name)
    picture = image()
    before = picture.tobytes()
    for key in (None, 3):
        tensor = transform(picture, key)
        again = tensor.clone()
        tensor.zero_()
        assert torch.equal(transform(picture, key), again)
    assert picture.tobytes() == before


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [0, -1, 2.5, "large"])
def test_a_size_that_is_none_is_refused(name, size):
    with pytest.raises(ConfigError, match="size"):
        made(name, size=size)


@pytest.mark.parametrize("name", NAMES)
def test_a_transform_survives_its_record_as_json(name):
    transform, _ = made(name)
    record = json.loads(json.dumps(record_of(registry.transform, transform)))
    again = build(registry.transform, record)
    assert record_of(registry.transform, again) == record
    for key in (None, 3):
        assert torch.equal(transform(image(), key), again(image(), key))


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_setting_of_any_transform_is_refused(name):
    with pytest.raises(ConfigError, match=f"transform '{name}' has no setting 'sizes'; did you mean 'size'"):
        made(name, sizes=3)
