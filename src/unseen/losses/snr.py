"""SNR: positives must carry less noise about their anchor than negatives do, by a margin."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unseen.core.checks import check_above, check_at_least
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import SHORTEST, Hinges, first_order, inner_products, masked_mean, triplet_hinges
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets

LARGEST_LOG_RATIO = math.log(1e10)
"""Ratios of two spreads count as at most this, so that their squares and gradients stay finite in float32."""

NO_SPREAD = -1e4
"""Stands for log 0: its exponential is 0 in every precision, and its gradient too."""


class Signals(NamedTuple):
    """Embeddings around the mean of their own coordinates: unit vectors, log of their lengths, whether they vary.

    `lean` is the sum of the coordinates of the whole embeddings at length 1; of rows that vary.
    """

    direction: Tensor
    log_spread: Tensor
    lean: Tensor
    is_varied: Tensor


def signals_of(embeddings: Tensor) -> Signals:
    """The signals of raw embeddings; rows whose coordinates are all equal, up to rounding, do not vary."""
    return Signals(*_Signals.apply(embeddings))


class _Signals(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, embeddings: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        # Scaled first, so that neither the mean nor a square overflows.
        largest = embeddings.abs().amax(1, keepdim=True).clamp_(min=SHORTEST)
        direction, size = embeddings / largest, embeddings.shape[1]
        mean = direction.mean(1, keepdim=True)
        direction -= mean
        reach = direction.abs().amax(1, keepdim=True)
        is_flat = (reach * largest < SHORTEST) | (reach < 8 * torch.finfo(reach.dtype).eps)
        length = torch.linalg.vector_norm(direction, dim=1, keepdim=True)
        inverse = length.reciprocal().masked_fill_(is_flat, 0)
        direction *= inverse
        log_spread = (length.log() + largest.log()).masked_fill_(is_flat, NO_SPREAD)
        # The mean is orthogonal to the rest of its row. The largest coordinate is 1, so only zero rows are clamped.
        whole = torch.hypot(length, mean * size**0.5).clamp_(min=0.5)
        lean = mean * size / whole
        is_varied = ~is_flat.squeeze(1)
        context.save_for_backward(direction, largest, mean, length, inverse, whole, lean)
        context.mark_non_differentiable(is_varied)
        return direction, log_spread.squeeze(1), lean.squeeze(1), is_varied

    @staticmethod
    @first_order("SNR")
    def backward(context: Any, to_direction: Tensor, to_log_spread: Tensor, to_lean: Tensor, _: Any) -> Tensor:
        direction, largest, mean, length, inverse, whole, lean = context.saved_tensors
        # A row is f = length direction + mean. Its lean, 1.f / |f|, has the slope (1 - lean f / |f|) / |f|.
        pressure, tilt = to_lean.unsqueeze(1) / whole, lean / whole
        along = (to_direction * direction).sum(1, keepdim=True) - to_log_spread.unsqueeze(1)
        gradient = to_direction * inverse
        gradient.addcmul_(direction, along * inverse + pressure * tilt * length, value=-1)
        gradient += pressure * (1 - tilt * mean) - gradient.mean(1, keepdim=True)
        return gradient.div_(largest)


def noise_to_signal(correlation: Tensor, log_anchor: Tensor, log_other: Tensor) -> Tensor:
    """Var(f_i - f_j) / Var(f_i) from the correlation of f_i and f_j and the logs of their spreads."""
    ratio = (log_other - log_anchor).clamp(max=LARGEST_LOG_RATIO).exp()
    return 1 + ratio * (ratio - 2 * correlation)


def snr(pairs: Pairs, chosen: Triplets | PairMasks, *, margin: float, regularization: float) -> LossOutput:
    """The SNR value over chosen triplets, or over all that the chosen pairs form; formula with `SNR`."""
    signals = signals_of(pairs.embeddings)
    others = signals if pairs.is_self else signals_of(pairs.ref_embeddings)
    correlation = inner_products(signals.direction, others.direction)
    if isinstance(chosen, Triplets):
        columns = torch.stack((chosen.positive, chosen.negative))
        near, far = noise_to_signal(
            correlation.take(columns + chosen.anchor * correlation.shape[1]),
            signals.log_spread.take(chosen.anchor),
            others.log_spread.take(columns),
        )
        is_used = signals.is_varied.take(chosen.anchor)
        hinge = (near - far + margin).relu() * is_used
        hinges = Hinges(hinge.sum(), is_used.sum(), hinge.count_nonzero())
        is_anchor = torch.zeros_like(signals.is_varied).index_fill_(0, chosen.anchor, True) & signals.is_varied
    else:
        is_anchor = chosen.positive.any(1) & chosen.negative.any(1) & signals.is_varied
        noise = noise_to_signal(correlation, signals.log_spread.unsqueeze(1), others.log_spread)
        hinges = triplet_hinges(noise, *(mask & is_anchor.unsqueeze(1) for mask in chosen), margin)
    value = hinges.total / hinges.num_active.clamp(min=1)
    if regularization:
        value = value + regularization * masked_mean(signals.lean.abs(), is_anchor)
    return LossOutput(value, hinges.num_terms, hinges.num_active)


@loss("snr")
class SNR(PairLoss):
    r"""What a positive's noise about its anchor lacks to be below a negative's by a margin.

    .. math:: \frac1{A} \sum_{(a,p,n) \in T} [v_{ap} - v_{an} + \gamma]_+ + \frac\lambda{|B|} \sum_{a \in B}
              \Bigl|\sum_m e_{am}\Bigr|, \qquad v_{ij} = \frac{\mathrm{Var}_m(f_{im} - f_{jm})}{\mathrm{Var}_m(f_{im})}

    ==========  ===========================================================================================
    f_i, e_i    the raw embedding and the same at length 1; m runs over the coordinates
    v_ij        noise-to-signal ratio: of the variance over the coordinates; not symmetric
    T           the miner's triplets; without a miner all triplets of the batch
    A           the number of triplets above 0, at least 1
    B           the anchors that occur in T, each once
    gamma       ``margin`` (> 0), by which a negative's ratio should be larger
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

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The value over the chosen triplets."""
        return snr(pairs, chosen, margin=self.margin, regularization=self.regularization)
