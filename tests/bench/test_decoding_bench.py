"""The bench of decoding: its subjects compute the same, and its tables are readable."""

import numpy as np
import pytest
import torch

from bench import decoding


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return decoding.draw(tmp_path_factory.mktemp("drawn"), (90, 70), 4)


def test_a_drawn_photograph_takes_the_bytes_of_a_real_one(drawn):
    photograph = np.asarray(decoding.photograph((90, 70), 0))
    assert photograph.shape == (70, 90, 3)
    assert photograph.std() > 30
    assert 0.3 < drawn.reader.sizes.mean() / (90 * 70) < 1.2


def test_the_subjects_compute_the_same_tensor(drawn):
    steps = decoding.steps_for(drawn, 64, "evaluation")
    for number in range(4):
        ours = steps[decoding.OURS](number).inputs[0]
        assert torch.equal(steps[decoding.FULL](number).inputs[0], ours)
        assert torch.equal(steps[decoding.TORCHVISION](number), ours)
        # Another resize: at most one level of 255, here of a range of 2.
        assert (steps[decoding.TENSORS](number) - ours).abs().max() < 2.01 / 255
    for step in decoding.steps_for(drawn, 64, "training").values():
        step(0)


def test_the_tables_name_every_subject():
    names = (decoding.OURS, decoding.FULL, decoding.TORCHVISION, decoding.TENSORS)
    cost = decoding.Cost((500, 375), 160, "evaluation", dict(zip(names, (2.0, 3.0, 4.0, 1.0), strict=True)))
    text = decoding.markdown([cost], {160: {(decoding.IN_MEMORY, 0): 100.0, ("500 x 375", 1): 90.0}})
    assert "| 500 x 375 | 160 | evaluation | 2.00 | 3.00 (1.50) | 4.00 (2.00) | 1.00 (0.50) | 500 |" in text
    assert "| tensors in memory | 100 (1.00) |  |  |" in text
    assert "| 500 x 375 |  | 90 (0.90) |  |" in text
