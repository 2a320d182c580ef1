"""What is kept of failures: arrays that disagree are refused."""

import numpy as np
import pytest

from tests.helpers.synthetic_failures import make_failures
from unseen.core.errors import DataError


@pytest.mark.parametrize(
    "change",
    [
        {"names": np.array(["a"])},
        {"classes": np.array(["a"])},
        {"labels": np.zeros((4, 1), dtype=np.int64)},
        {"worst_items": np.zeros((2, 1), dtype=np.int64)},
        {"worst_items": np.full((2, 5), 4)},
        {"worst_items": np.full((2, 5), -1)},
        {"worst_items": np.zeros((2, 5))},
        {"worst_similarity": np.zeros((2, 5))},
        {"worst_rank": np.zeros(3)},
        {"confused_items": np.zeros((1, 3), dtype=np.int64)},
        {"confused_items": np.array([[0, 4]])},
        {"confused_queries": np.zeros((2, 2))},
        {"duplicate_items": np.array([[0, -1]])},
        {"duplicate_similarity": np.zeros(2)},
        {"totals": np.zeros(3)},
        {"duplicate_threshold": np.zeros(1)},
        {"thumbnails": np.zeros((3, 4, 4), dtype=np.uint8)},
        {"thumbnails": np.zeros((4, 4, 4, 2), dtype=np.uint8)},
        {"thumbnails": np.zeros((4, 4, 4), dtype=np.float32)},
    ],
)
def test_arrays_that_disagree_are_refused(change):
    with pytest.raises(DataError, match=f"FailureSample: {next(iter(change))} does not fit"):
        make_failures(**change)
