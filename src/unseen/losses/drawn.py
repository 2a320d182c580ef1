"""Drawn positives: one positive for each anchor, drawn from the key, as N-pair and angular losses take it."""

import torch

from unseen.core.randomness import derive
from unseen.losses.pairs import Pairs
from unseen.losses.tuples import PairMasks, Triplets, as_masks
from unseen.miners.draws import draw, uniform_numbers


def with_one_positive(pairs: Pairs, chosen: Triplets | PairMasks, key: int | None) -> PairMasks:
    """The chosen pairs with one of the positives of each anchor, all equally likely, and all of its negatives."""
    chosen = as_masks(pairs, chosen)
    # A key of its own: the miner may have drawn from the same one.
    key = None if key is None else derive(key, "drawn positives")
    column = draw(chosen.positive, uniform_numbers(pairs, key, draws=1, per_anchor=1)[0])
    drawn = torch.zeros_like(chosen.positive).scatter_(1, column, True)
    return PairMasks(drawn & chosen.positive, chosen.negative)  # a row without positives draws one it has not
