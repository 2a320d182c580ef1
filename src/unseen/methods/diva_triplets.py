"""The triplets of DiVA's shared and intra-class heads: across three classes, and inside one."""

from typing import Literal

import torch
from torch import Tensor

from unseen.core.randomness import derive, torch_generator
from unseen.miners.distance import DistanceWeighted
from unseen.pairs.pairs import Pairs
from unseen.pairs.random_choice import draw, triplets_of, uniform_numbers
from unseen.pairs.tuples import Triplets

SharedMode = Literal["standard", "full", "random"]


@torch.no_grad()
def shared_triplets(embeddings: Tensor, labels: Tensor, key: int, mode: SharedMode = "standard") -> Triplets:
    """For each anchor a distance-weighted negative and a positive, all of different classes.

    ===========  ==========================================================================================
    standard     the positive is drawn uniformly from all third classes
    full         the positive is drawn from all third classes by distance weighting
    random       labels are permuted before ordinary distance weighting: classes may be equal
    ===========  ==========================================================================================

    Empty: anchors without a third class are left out
    """
    pairs = Pairs(embeddings, labels)
    miner = DistanceWeighted()
    if mode == "random":
        order = torch.randperm(len(labels), generator=torch_generator(derive(key, "permuted labels")))
        return miner(Pairs(embeddings, labels[order.to(labels.device)]), key=key)
    numbers = uniform_numbers(pairs, key, draws=2, per_anchor=1)
    weights = miner.weights(pairs.detached)
    negative = draw(weights, numbers[0])
    # An anchor without a negative points behind the last column; it is left out, whatever label it gets here.
    other = pairs.labels[negative.squeeze(1).clamp(max=len(pairs) - 1)]
    is_third = pairs.negative & (pairs.labels != other.unsqueeze(1))
    third_weights = is_third.to(weights.dtype)
    if mode == "full":
        weighted = weights * is_third
        # Where all third classes are beyond the cut-off, any of them, as the miner does with negatives.
        third_weights = torch.where(weighted.sum(1, keepdim=True) > 0, weighted, third_weights)
    return triplets_of(pairs, draw(third_weights, numbers[1]), negative)


@torch.no_grad()
def intra_triplets(labels: Tensor, key: int) -> Triplets:
    """For each anchor a positive and a negative of its own class, all different if the class has three samples.

    Empty: in a class of two samples both are drawn with replacement; a sample alone in its class is left out
    """
    pairs = Pairs(torch.ones(len(labels), 1, device=labels.device), labels)
    numbers = uniform_numbers(pairs, key, draws=2, per_anchor=1)
    is_few = (pairs.positive_count < 2).unsqueeze(1)
    pool = torch.where(is_few, pairs.same, pairs.positive)
    positive = draw(pool, numbers[0])
    negative = draw(pool.scatter(1, positive, is_few), numbers[1])
    triplets = triplets_of(pairs, positive, negative)
    has_positive = pairs.positive_count[triplets.anchor] > 0
    return Triplets(*(part[has_positive] for part in triplets))
