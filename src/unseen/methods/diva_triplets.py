"""Triplets of DiVA that no class label asks for: across three classes, and inside one."""

from typing import Literal

import torch
from torch import Tensor

from unseen.core.randomness import derive, torch_generator
from unseen.miners.distance import DistanceWeighted
from unseen.pairs.pairs import Pairs
from unseen.pairs.random_choice import draw, triplets_of, uniform_numbers
from unseen.pairs.tuples import Triplets

SharedMode = Literal["standard", "full", "random"]
SHARED_MODES = ("standard", "full", "random")


@torch.no_grad()
def shared_triplets(embeddings: Tensor, labels: Tensor, key: int, mode: SharedMode = "standard") -> Triplets:
    """For each anchor a negative by distance weighting and a positive, the three of three different classes.

    ===========  ==========================================================================================
    standard     the positive is drawn uniformly from the classes of neither anchor nor negative
    full         the positive is drawn from them by distance weighting too
    random       labels are permuted, then distance weighting as ever: classes may agree
    ===========  ==========================================================================================

    Empty: anchors for which there is no third class are left out
    """
    pairs = Pairs(embeddings, labels)
    miner = DistanceWeighted()
    if mode == "random":
        order = torch.randperm(len(labels), generator=torch_generator(derive(key, "permuted labels")))
        return miner(Pairs(embeddings, labels[order.to(labels.device)]), key=key)
    numbers = uniform_numbers(pairs, key, draws=2, per_anchor=1)
    weights = miner.weights(pairs.detached)
    negative = draw(weights, numbers[0])
    # An anchor without a negative points behind the last column; any label does for it, it is left out.
    other = pairs.labels[negative.squeeze(1).clamp(max=len(pairs) - 1)]
    is_third = pairs.negative & (pairs.labels != other.unsqueeze(1))
    wanted = is_third.to(weights.dtype)
    if mode == "full":
        weighed = weights * is_third
        # Where all of third classes are beyond the cut-off, any of them, as the miner does with negatives.
        wanted = torch.where(weighed.sum(1, keepdim=True) > 0, weighed, wanted)
    return triplets_of(pairs, draw(wanted, numbers[1]), negative)


@torch.no_grad()
def intra_triplets(labels: Tensor, key: int) -> Triplets:
    """For each anchor a positive and a negative of its own class, the three different where the class has three.

    Empty: in a class of two samples both are drawn with replacement; a sample alone in its class is left out
    """
    pairs = Pairs(torch.ones(len(labels), 1, device=labels.device), labels)
    numbers = uniform_numbers(pairs, key, draws=2, per_anchor=1)
    is_few = (pairs.positive_count < 2).unsqueeze(1)
    pool = torch.where(is_few, pairs.same, pairs.positive)
    positive = draw(pool, numbers[0])
    negative = draw(pool.scatter(1, positive, is_few), numbers[1])
    found = triplets_of(pairs, positive, negative)
    is_useful = pairs.positive_count[found.anchor] > 0
    return Triplets(*(part[is_useful] for part in found))
