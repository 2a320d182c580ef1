"""Random mining: a uniform positive and a uniform negative for each anchor."""

import torch
from torch import Tensor

from unseen.core.checks import check_count
from unseen.core.registry import miner
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.random_choice import draw_triplets, uniform_numbers
from unseen.pairs.tuples import Triplets


@miner("random")
class Random:
    r"""Random triplets: a uniform positive and a uniform negative for each anchor.

    .. math:: p \sim U(P_a), \quad n \sim U(N_a)

    ==============  ============================================================
    P_a, N_a        others with the label of a; others with another label
    per_anchor      triplets per anchor (>= 1), drawn independently
    ==============  ============================================================

    Shape:      n embeddings -> triplets of per_anchor x (anchors with a positive and a negative)
    Empty:      anchors without positives or negatives are left out
    Reference:  Roth et al., Revisiting Training Strategies and Generalization Performance in Deep Metric Learning,
                ICML 2020, arXiv:2002.08473
    Differs:    every anchor gets equally many triplets; their code draws among all triplets of the batch
    """

    def __init__(self, *, per_anchor: int = 1) -> None:
        check_count("Random", "per_anchor", per_anchor)
        self.per_anchor = per_anchor

    @torch.no_grad()
    def __call__(self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None) -> Triplets:
        """The triplets of a batch, a function of its labels and the key."""
        pairs = pairs_of(embeddings, labels)
        numbers = uniform_numbers(pairs, key, draws=2, per_anchor=self.per_anchor)
        return draw_triplets(pairs, pairs.positive, pairs.negative, numbers)
