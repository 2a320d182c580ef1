"""Drawn positives: one positive for each anchor, drawn from the key; how N-pair and angular losses are called."""

from abc import ABC
from collections.abc import Sequence

import torch
from torch import Tensor

from unseen.core.randomness import derive, key_from_torch
from unseen.losses.calls import OverPairs
from unseen.losses.pairs import Pairs, pairs_of
from unseen.losses.tuples import PairMasks, as_masks, choose, usage_of
from unseen.miners.draws import draw, uniform_numbers


def with_one_positive(pairs: Pairs, chosen: PairMasks, key: int) -> PairMasks:
    """The chosen pairs with one of the positives of each anchor, all equally likely, and all of its negatives."""
    column = draw(chosen.positive, uniform_numbers(pairs, key, draws=1, per_anchor=1)[0])
    drawn = torch.zeros_like(chosen.positive).scatter_(1, column, True)
    return PairMasks(drawn & chosen.positive, chosen.negative)  # a row without positives draws one it has not


class OverDrawnPairs(OverPairs, ABC):
    """A loss over tuples of an anchor, one drawn positive and all negatives: `outcome` gets one positive a row."""

    def forward(
        self,
        embeddings: Tensor | Pairs,
        labels: Tensor | None = None,
        indices_tuple: Sequence[Tensor] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        *,
        key: int | None = None,
    ) -> Tensor:
        """The loss of a batch; `key` governs the miner's draws and, apart from them, those of the positives."""
        pairs = pairs_of(embeddings, labels, ref_emb, ref_labels)
        key = key_from_torch() if key is None else key
        chosen = as_masks(pairs, choose(pairs, indices_tuple, self.miner, key))
        outcome = self.outcome(pairs, with_one_positive(pairs, chosen, derive(key, "drawn positives")))
        self.usage = usage_of(pairs, outcome)
        return outcome.value
