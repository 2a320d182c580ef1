"""Miners: which tuples of a batch a loss is to use."""

from unseen.miners.distance import DistanceWeighted
from unseen.miners.multi_similarity import MultiSimilarity
from unseen.miners.random import Random
from unseen.miners.semi_hard import SemiHard

__all__ = ["DistanceWeighted", "MultiSimilarity", "Random", "SemiHard"]
