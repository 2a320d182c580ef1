"""SNR loss: triplet loss on noise-to-signal ratios of unnormalised embeddings."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unseen.core.checks import check_above, check_at_least
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import (
    SHORTEST,
    Hinges,
    at_least_one,
    entries,
    first_order,
    inner_products,
    masked_mean,
    taken,
    triplet_hinges,
    with_gradients,
)
from unseen.pairs.functional.small import flags, floats, is_small
from unseen.pairs.pair_terms import anchors_of
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets

LARGEST_LOG_RATIO = math.log(1e10)
"""Ratios of two spreads count as at most this, so that their squares and gradients stay finite in float32."""

NO_SPREAD = -1e4
"""Stands for log 0: its exponential is 0 in every precision, and its gradient too."""


class Signals(NamedTuple):
    """Embeddings centred on the mean of their coordinates: unit vectors, log lengths, and whether they vary at all.

    `coordinate_sum` is the sum of the coordinates of the unit-length embedding, of rows that vary.
    """

    direction: Tensor
    log_spread: Tensor
    coordinate_sum: Tensor
    is_varied: Tensor


def signals_of(embeddings: Tensor) -> Signals:
    """Signals of unnormalised embeddings; rows whose coordinates are equal up to rounding do not vary."""
    return Signals(*_Signals.apply(embeddings))


class _Signals(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, embeddings: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        context.is_small = is_small(embeddings.detach())
        if context.is_small:
            return _Signals.small_forward(context, embeddings)
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
        if context.is_small:
            return _Signals.small_backward(context, to_direction, torch.stack((to_log_spread, to_lean)))
        direction, largest, mean, length, inverse, whole, lean = context.saved_tensors
        # A row is f = length direction + mean; the sum of f / |f| has the slope (1 - sum f / |f|) / |f|.
        pressure, tilt = to_lean.unsqueeze(1) / whole, lean / whole
        along = (to_direction * direction).sum(1, keepdim=True) - to_log_spread.unsqueeze(1)
        gradient = to_direction * inverse
        gradient.addcmul_(direction, along * inverse + pressure * tilt * length, value=-1)
        gradient += pressure * (1 - tilt * mean) - gradient.mean(1, keepdim=True)
        return gradient.div_(largest)

    @staticmethod
    def small_forward(context: Any, embeddings: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The same by compiled loops."""
        from unseen.pairs.kernels.signals import centre_rows

        direction, kept = torch.empty_like(embeddings), embeddings.new_empty(7, len(embeddings))
        is_varied = torch.empty(len(embeddings), dtype=torch.bool)
        limits = np.array((SHORTEST, 8 * torch.finfo(embeddings.dtype).eps, NO_SPREAD), np.float32)
        centre_rows(floats(embeddings), limits, direction.numpy(), kept.numpy(), flags(is_varied))
        context.save_for_backward(direction, kept)
        context.mark_non_differentiable(is_varied)
        return direction, kept[6].clone(), kept[5].clone(), is_varied

    @staticmethod
    def small_backward(context: Any, to_direction: Tensor, to_numbers: Tensor) -> Tensor:
        """The same by compiled loops."""
        from unseen.pairs.kernels.signals import centred_gradient

        direction, kept = context.saved_tensors
        gradient = torch.empty_like(direction)
        centred_gradient(floats(to_direction), floats(to_numbers), floats(direction), floats(kept), gradient.numpy())
        return gradient


def noise_to_signal(correlation: Tensor, log_anchor: Tensor, log_other: Tensor) -> Tensor:
    """Var(f_i - f_j) / Var(f_i) from the correlation of f_i and f_j and the logs of their spreads."""
    ratio = (log_other - log_anchor).clamp(max=LARGEST_LOG_RATIO).exp()
    return 1 + ratio * (ratio - 2 * correlation)


def snr(pairs: Pairs, chosen: Triplets | PairMasks, *, margin: float, regularization: float) -> LossOutput:
    """SNR loss over the chosen triplets, or all that the chosen pairs form; see `SNR` for the formula."""
    signals = signals_of(pairs.embeddings)
    others = signals if pairs.is_self else signals_of(pairs.ref_embeddings)
    correlation = inner_products(signals.direction, others.direction)
    if isinstance(chosen, Triplets) and pairs.is_self and is_small(correlation):
        return _small_snr(signals, correlation, torch.stack(chosen), margin, regularization)
    if isinstance(chosen, Triplets):
        columns = torch.stack((chosen.positive, chosen.negative))
        near, far = noise_to_signal(
            entries(correlation, (chosen.anchor, columns)),
            taken(signals.log_spread, chosen.anchor),
            taken(others.log_spread, columns),
        )
        is_used = taken(signals.is_varied, chosen.anchor)
        hinge = (near - far + margin).relu() * is_used
        hinges = Hinges(hinge.sum(), is_used.sum(), hinge.count_nonzero())
        is_anchor = torch.zeros_like(signals.is_varied).index_fill_(0, chosen.anchor, True) & signals.is_varied
    else:
        is_anchor = anchors_of(pairs, chosen).is_complete & signals.is_varied
        noise = noise_to_signal(correlation, signals.log_spread.unsqueeze(1), others.log_spread)
        positive, negative = (mask & is_anchor.unsqueeze(1) for mask in chosen)
        hinges = triplet_hinges(noise, positive, negative, margin)
    value = hinges.total / at_least_one(hinges.num_active)
    if regularization:
        value = value + regularization * masked_mean(signals.coordinate_sum.abs(), is_anchor)
    return LossOutput(value, hinges.num_terms, hinges.num_active)


def _small_snr(
    signals: Signals, correlation: Tensor, triplets: Tensor, margin: float, regularization: float
) -> LossOutput:
    """The loss over triplets of a batch by a compiled loop."""
    from unseen.pairs.kernels.signals import hinge_ratios

    slope, spreads = torch.zeros_like(correlation), np.zeros((4, len(correlation)), np.float32)
    spreads[0], spreads[1] = floats(signals.log_spread), flags(signals.is_varied)
    total, num_used, num_active = hinge_ratios(
        floats(correlation), triplets.numpy(), spreads, margin, LARGEST_LOG_RATIO, slope.numpy()
    )
    share, sums, is_anchor = 1 / max(1, num_active), floats(signals.coordinate_sum), spreads[3]
    weights = is_anchor * np.float32(regularization / max(1.0, is_anchor.sum()))
    value = correlation.new_tensor(share * total + np.dot(np.abs(sums), weights))
    sources = [
        (correlation, slope.mul_(share)),
        (signals.log_spread, torch.from_numpy(spreads[2] * np.float32(share))),
        (signals.coordinate_sum, torch.from_numpy(np.sign(sums) * weights)),
    ]
    return LossOutput(with_gradients(value, sources), num_used, num_active)


@loss("snr")
class SNR(PairLoss):
    r"""Signal-to-noise-ratio loss: triplet hinges on the ratio Var(f_a - f_j) / Var(f_a).

    .. math:: \frac1{A} \sum_{(a,p,n) \in T} [v_{ap} - v_{an} + \gamma]_+ + \frac\lambda{|B|} \sum_{a \in B}
              \Bigl|\sum_m e_{am}\Bigr|, \qquad v_{ij} = \frac{\mathrm{Var}_m(f_{im} - f_{jm})}{\mathrm{Var}_m(f_{im})}

    ==========  ===========================================================================================
    f_i, e_i    unnormalised and unit-length embedding; m runs over the coordinates
    v_ij        noise-to-signal ratio of variances over the coordinates; not symmetric
    T           triplets of the miner, or all triplets of the batch
    A           number of triplets above 0, at least 1
    B           anchors that occur in T, each once
    gamma       ``margin`` (> 0), between the ratios of negatives and positives
    lambda      ``regularization`` (>= 0), weight of the zero-mean regulariser
    ==========  ===========================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without positives or negatives have no triplet, nor do those whose coordinates are all equal
                (variance 0, or below the precision); zero connected to the graph without triplets
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

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen triplets."""
        return snr(pairs, chosen, margin=self.margin, regularization=self.regularization)
