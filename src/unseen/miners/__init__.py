"""Miners: which pairs or triplets of a batch a loss uses."""

from unseen.miners.distance import DistanceWeighted
from unseen.miners.distance_pairs import DistancePairs
from unseen.miners.hard import Hard
from unseen.miners.multi_similarity import MultiSimilarity
from unseen.miners.random import Random
from unseen.miners.rho_distance import RhoDistance
from unseen.miners.semi_hard import SemiHard
from unseen.miners.semi_hard_pairs import SemiHardPairs
from unseen.miners.soft_hard import SoftHard

__all__ = [
    "DistancePairs",
    "DistanceWeighted",
    "Hard",
    "MultiSimilarity",
    "Random",
    "RhoDistance",
    "SemiHard",
    "SemiHardPairs",
    "SoftHard",
]
