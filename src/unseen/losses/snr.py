"""SNR: positives must carry less noise about their anchor than negatives do, by a margin."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unseen.core.checks import check_above, check_at_least
from unseen.core.registry import loss
from unseen.losses.calls import OverPairs
from unseen.losses.pairs import SHORTEST, Pairs, inner_products, unit_vectors
from unseen.losses.triplet import over_all
from unseen.losses.tuples import Miner, Outcome, PairMasks, Triplets

LARGEST_RATIO = 1e10
"""Ratios of two spreads count as at most this, so that their squares and gradients stay finite in float32."""

NO_SPREAD = -1e4
"""Stands for log 0: its exponential is 0 in every precision, and its gradient too."""


class Signals(NamedTuple):
    """Embeddings around the mean of their own coordinates: unit vectors, log of their lengths, whether they vary."""

    direction: Tensor
    log_spread: Tensor
    is_varied: Tensor


def signals_of(embeddings: Tensor) -> Signals:
    """The signals of raw embeddings; rows whose coordinates are all equal, up to rounding, do not vary."""
    # Scaled first, so that neither the mean nor a square overflows.
    largest = embeddings.detach().abs().amax(1, keepdim=True).clamp(min=SHORTEST)
    scaled = embeddings / largest
    centred = scaled - scaled.mean(1, keepdim=True)
    reach = centred.detach().abs().amax(1, keepdim=True)
    is_flat = (reach * largest < SHORTEST) | (reach < 8 * torch.finfo(reach.dtype).eps)
    length = torch.linalg.vector_norm(centred, dim=1, keepdim=True).masked_fill(is_flat, 1)
    log_spread = (length.log() + largest.log()).masked_fill(is_flat, NO_SPREAD)
    direction = unit_vectors(centred, reach.masked_fill(is_flat, 0))
    return Signals(direction, log_spread.squeeze(1), ~is_flat.squeeze(1))


def noise_to_signal(correlation: Tensor, log_anchor: Tensor, log_other: Tensor) -> Tensor:
    """Var(f_i - f_j) / Var(f_i) from the correlation of f_i and f_j and the logs of their spreads."""
    ratio = (log_other - log_anchor).clamp(max=math.log(LARGEST_RATIO)).exp()
    return 1 + ratio * (ratio - 2 * correlation)


def snr(pairs: Pairs, chosen: Triplets | PairMasks, *, margin: float, regularization: float) -> Outcome:
    """The SNR value over chosen triplets, or over all that the chosen pairs form; formula with `SNR`."""
    signals = signals_of(pairs.embeddings)
    others = signals if pairs.is_self else signals_of(pairs.ref_embeddings)
    if isinstance(chosen, Triplets):
        rows, columns = chosen.anchor.repeat(2), torch.cat((chosen.positive, chosen.negative))
        correlation = _correlation_at(signals, others, rows, columns)
        noise = noise_to_signal(correlation, signals.log_spread[rows], others.log_spread[columns])
        near, far = noise.view(2, -1)
        is_used = signals.is_varied[chosen.anchor]
        hinge = (near - far + margin).relu() * is_used
        total, active, used = hinge.sum(), (hinge > 0).sum(), is_used.sum()
        is_anchor = torch.zeros_like(signals.is_varied).index_fill_(0, chosen.anchor, True) & signals.is_varied
    else:
        is_anchor = chosen.positive.any(1) & chosen.negative.any(1) & signals.is_varied
        kept = PairMasks(*(mask & is_anchor.unsqueeze(1) for mask in chosen))
        correlation = inner_products(signals.direction, others.direction)
        noise = noise_to_signal(correlation, signals.log_spread.unsqueeze(1), others.log_spread)
        total, active = over_all(noise, kept, margin)
        used = (kept.positive.sum(1) * kept.negative.sum(1)).sum()
    value = total / active.clamp(min=1)
    if regularization:
        imbalance = (pairs.normalized.sum(1).abs() * is_anchor).sum() / is_anchor.sum().clamp(min=1)
        value = value + regularization * imbalance
    return Outcome(value, used, active)


def _correlation_at(signals: Signals, others: Signals, rows: Tensor, columns: Tensor) -> Tensor:
    # A triplet for each anchor needs only 2 n of the n x m products; a list of many would need them all, and again.
    if len(rows) <= 2 * len(signals.direction):
        return (signals.direction.index_select(0, rows) * others.direction.index_select(0, columns)).sum(1)
    every = inner_products(signals.direction, others.direction)
    return every.flatten().index_select(0, rows * every.shape[1] + columns)


@loss("snr")
class SNR(OverPairs):
    r"""What a positive's noise about its anchor lacks to be below a negative's by a margin.

    .. math:: \frac1{A} \sum_{(a,p,n) \in T} [v_{ap} - v_{an} + \gamma]_+ + \frac\lambda{|B|} \sum_{a \in B}
              \Bigl|\sum_m e_{am}\Bigr|, \qquad v_{ij} = \frac{\mathrm{Var}_m(f_{im} - f_{jm})}{\mathrm{Var}_m(f_{im})}

    ==========  ===========================================================================================
    f_i, e_i    the raw embedding and the same at length 1; m runs over the coordinates
    v_ij        noise-to-signal ratio: of the variance over the coordinates; not symmetric
    T           the miner's triplets; without a miner all triplets of the batch
    A           the number of triplets above 0, at least 1
    B           the anchors that occur in T, each once
    gamma       ``margin`` (> 0)
    lambda      ``regularization`` (>= 0), the weight of coordinates that do not sum to 0
    ==========  ===========================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      an anchor without positives or negatives has no triplet, nor has one whose coordinates are all equal
                (its variance is 0, or below what its precision resolves); zero connected to the graph if none is left
    Reference:  Yuan et al., Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning, CVPR 2019,
                arXiv:1904.02616
    Differs:    Roth et al. (arXiv:2002.08473) print the ratio without squares, and their code drops lambda when it
                mines by distance; here neither. A spread counts as at most 1e10 times its anchor's
    """

    def __init__(self, *, margin: float = 0.2, regularization: float = 0.005, miner: Miner | None = None) -> None:
        super().__init__()
        check_above("SNR", "margin", margin, 0)
        check_at_least("SNR", "regularization", regularization, 0)
        self.margin, self.regularization, self.miner = margin, regularization, miner

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> Outcome:
        """The value over the chosen triplets."""
        return snr(pairs, chosen, margin=self.margin, regularization=self.regularization)
