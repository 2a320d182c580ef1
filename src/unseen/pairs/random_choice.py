"""Random choice of columns by weight, from uniform or Gumbel numbers; shared by all random miners."""

import torch
from torch import Tensor

from unseen.core.randomness import key_from_torch, torch_generator
from unseen.pairs.functional.small import flags, floats, is_small
from unseen.pairs.kernels.arrays import Bytes, Float32s
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import Triplets


def uniform_numbers(pairs: Pairs, key: int | None, *, draws: int, per_anchor: int) -> Tensor:
    """Numbers in [0, 1), draws x anchors x per_anchor, that depend on the key alone; None draws a key from torch."""
    generator = torch_generator(key_from_torch() if key is None else key)
    numbers = torch.rand(draws, len(pairs), per_anchor, generator=generator, dtype=torch.float64)
    # Slightly below 1, so that number x total never rounds up to the total.
    return numbers.mul_(1 - 2**-40).to(pairs.labels.device)


def draw(weights: Tensor, numbers: Tensor) -> Tensor:
    """One column per row and number, with probability proportional to its weight.

    Weights are >= 0 (a mask will do) and a column of weight 0 is never drawn; a row without weight yields the number of
    columns. Inverse transform sampling: the column is where the row's cumulative weight exceeds number x total.
    """
    if is_small(weights, torch.float32, torch.bool):
        from unseen.pairs.kernels.draws import draw_columns

        columns = torch.empty(numbers.shape, dtype=torch.int64)
        draw_columns(_loads(weights), numbers.contiguous().numpy(), columns.numpy())
        return columns
    running = weights.cumsum(1, dtype=torch.float64)
    return torch.searchsorted(running, numbers * running[:, -1:], right=True)


def gumbel_numbers(pairs: Pairs, key: int | None) -> Tensor:
    """Standard Gumbel numbers, one per pair, that depend on the key alone; None draws a key from torch."""
    generator = torch_generator(key_from_torch() if key is None else key)
    # Single precision is enough to rank: two of a row tie about once in 2^24 / columns draws.
    numbers = torch.rand(pairs.same.shape, generator=generator, dtype=torch.float32)
    return numbers.clamp_(min=2**-25).log_().neg_().log_().neg_().to(pairs.labels.device)


def draw_distinct(log_weights: Tensor, counts: Tensor, gumbel: Tensor) -> Tensor:
    """`counts` different columns per row, drawn by weight without replacement, as a mask (the Gumbel top-k trick).

    A column of log-weight -inf is never drawn; a row with fewer candidates than its count yields all of them.
    """
    most = min(int(counts.max()), log_weights.shape[1])
    scores, columns = (gumbel + log_weights).topk(most)
    is_drawn = (torch.arange(most, device=columns.device) < counts.unsqueeze(1)) & (scores != -torch.inf)
    return torch.zeros_like(log_weights, dtype=torch.bool).scatter_(1, columns, is_drawn)


def draw_triplets(pairs: Pairs, positive: Tensor, negative: Tensor, numbers: Tensor) -> Triplets:
    """Triplets of positives and negatives drawn independently by weight, n x m each; numbers: 2 x n x per_anchor."""
    if is_small(negative, torch.float32, torch.bool):
        from unseen.pairs.kernels import draws

        triplets = torch.empty(3, numbers[0].numel(), dtype=torch.int64)
        count = draws.draw_triplets(_loads(positive), _loads(negative), numbers.numpy(), triplets.numpy())
        return Triplets(*triplets[:, :count].unbind())
    return triplets_of(pairs, draw(positive, numbers[0]), draw(negative, numbers[1]))


def _loads(weights: Tensor) -> Bytes | Float32s:
    return flags(weights) if weights.dtype is torch.bool else floats(weights)


def triplets_of(pairs: Pairs, positive: Tensor, negative: Tensor) -> Triplets:
    """Triplets of the anchors that have a positive and a negative, from drawn columns (anchors x per_anchor).

    As in `draw`, the number of columns stands for a missing positive or negative.
    """
    missing = len(pairs.ref_labels)
    if is_small(positive, torch.int64):
        from unseen.pairs.kernels.draws import list_triplets

        triplets = torch.empty(3, positive.numel(), dtype=torch.int64)
        count = list_triplets(positive.numpy(), negative.numpy(), missing, triplets.numpy())
        return Triplets(*triplets[:, :count].unbind())
    anchor = torch.arange(len(pairs), device=positive.device).unsqueeze(1).expand_as(positive)
    highest = torch.maximum(positive, negative)
    if highest.amax().item() == missing:
        is_complete = highest < missing
        anchor, positive, negative = anchor[is_complete], positive[is_complete], negative[is_complete]
    return Triplets(anchor.flatten(), positive.flatten(), negative.flatten())
