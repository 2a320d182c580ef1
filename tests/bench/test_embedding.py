"""The bench of embedding: every subject embeds every image, and the table states each target."""

import time

import numpy as np
import pytest
import torch

from bench import embedding
from bench.pipeline import draw_files
from unseen.models.engine import has_onnx, rows_per_step


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    pytest.importorskip("torchvision")
    pytest.importorskip("timm")
    root = tmp_path_factory.mktemp("drawn")
    draw_files(root, classes=2, of_a_class=2)
    # 128 pixels are too many for a reduced decoding of the files
    return embedding.Case("resnet10t", 128, str(root), 40, embedding.UNLIMITED)


def test_what_was_before_and_the_engine_agree(case):
    before = torch.cat([*embedding.before(case)])
    now = torch.cat([*embedding.SUBJECTS[embedding.TORCH](case)])
    assert before.shape == now.shape == (case.images, embedding.EMBEDDING)
    assert np.allclose(before.numpy(), now.numpy(), atol=1e-4)


def test_subjects_on_tensors_in_memory_yield_batches(case):
    rows = rows_per_step((3, case.size, case.size), torch.device("cpu"))
    names = [embedding.BARE_TORCH, *([embedding.BARE_ONNX] if has_onnx() else [])]
    for name in names:
        assert len(next(iter(embedding.SUBJECTS[name](case)))) == rows < case.images


def test_the_first_batch_is_not_on_the_clock():
    cost = embedding.clocked(iter([np.zeros((4, 2))] * 3), time.perf_counter() - 5, embedding.UNLIMITED)
    assert cost.ready_seconds >= 5
    assert cost.images_per_second > 0


def test_the_clock_ends_with_the_batch_after_its_limit():
    left = iter([np.zeros((4, 2))] * 5)
    embedding.clocked(left, time.perf_counter(), limit=0.0)
    assert len([*left]) == 3, "one batch before the clock, one on it"


def test_the_table_states_targets_and_misses():
    speeds = {
        embedding.BEFORE: 40,
        embedding.TORCH: 210,
        embedding.ONNX: 200,
        embedding.BARE_TORCH: 230,
        embedding.BARE_ONNX: 250,
    }
    costs = {name: embedding.Cost(1.0, speed, 2.0, 900.0) for name, speed in speeds.items()}
    results = [(embedding.Case("resnet50", size, "", 768, 8), costs) for size in embedding.SIZES]
    text = embedding.table(results, {embedding.TORCH: 3.0}, source="files", rounds=3)
    assert "resnet50 at 160: engine torch 5.25 times before (target 5, met); engine onnx 0.80" in text
    assert "(target 0.85, missed)" in text
    assert text.count("times before (target") == 1, "the first target is for 160 pixels only"
    assert "add 3 MB" in text
