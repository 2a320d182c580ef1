"""What a loss tells about its last batch."""

import torch

from unseen.losses import Pairs
from unseen.pairs.tuples import LossOutput, usage_of


def usage(labels, ref_labels=None, used=0, active=0):
    def rows(names):
        return torch.ones(len(names), 2), torch.tensor(names)

    pairs = Pairs(*rows(labels)) if ref_labels is None else Pairs(*rows(labels), *rows(ref_labels))
    return usage_of(pairs, LossOutput(torch.zeros(()), used, active))


def test_anchors_without_positives_or_negatives_are_counted():
    counts = usage([0, 0, 1, 2]).counts()
    assert (counts["anchors"], counts["without_positive"], counts["without_negative"]) == (4, 2, 0)
    counts = usage([5, 5, 5]).counts()
    assert (counts["anchors"], counts["without_positive"], counts["without_negative"]) == (3, 0, 3)


def test_with_a_reference_set_its_columns_count_and_not_the_anchors():
    counts = usage([0, 1, 2], [0, 0]).counts()
    assert (counts["anchors"], counts["without_positive"], counts["without_negative"]) == (3, 2, 1)


def test_masks_and_counts_are_added_up():
    found = usage([0, 1], used=torch.tensor([2, 3]), active=torch.tensor([[True, False], [True, True]]))
    assert (found.counts()["num_tuples"], found.counts()["num_active"]) == (5, 3)
    assert not found.is_empty
    assert usage([0, 1], used=torch.tensor([False, False])).is_empty
