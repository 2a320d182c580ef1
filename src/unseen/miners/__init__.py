"""Miners: which pairs or triplets of a batch a loss uses."""

from unseen.miners.distance import DistancePairs as DistancePairs
from unseen.miners.distance import DistanceWeighted as DistanceWeighted
from unseen.miners.hard import Hard as Hard
from unseen.miners.multi_similarity import MultiSimilarity as MultiSimilarity
from unseen.miners.random import Random as Random
from unseen.miners.rho_distance import RhoDistance as RhoDistance
from unseen.miners.semi_hard import SemiHard as SemiHard
from unseen.miners.semi_hard import SemiHardPairs as SemiHardPairs
from unseen.miners.soft_hard import SoftHard as SoftHard
