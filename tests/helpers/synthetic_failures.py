"""Made-up failures for report tests: four items, two worst queries, a confused pair, a near-duplicate."""

import numpy as np

from unseen.evaluation.failure_sample import FailureSample


def make_failures(**changes):
    arrays = {
        "names": np.array(["first", "second", "third", "fourth"]),
        "classes": np.array(["owl", "owl", "emu", "emu"]),
        "labels": np.array([4, 4, 1, 1]),
        "worst_items": np.array([[0, 1, 2, 3, 1], [2, 3, 0, 1, 3]]),
        "worst_similarity": np.array([[0.25, 0.875, 0.75, 0.25], [0.125, 0.875, 0.5, 0.125]]),
        "worst_rank": np.array([1203.0, 3.5]),
        "confused_items": np.array([[0, 2]]),
        "confused_queries": np.array([[3, 5]]),
        "duplicate_items": np.array([[2, 0]]),
        "duplicate_similarity": np.array([0.9953]),
        "totals": np.array([1234, 5000, 17, 1]),
        "duplicate_threshold": np.array(0.98),
        "thumbnails": np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8),
    }
    return FailureSample(**(arrays | changes))
