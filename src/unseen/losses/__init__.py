"""Losses: what pulls a class together and pushes classes apart."""

from unseen.losses.contrastive import Contrastive
from unseen.losses.margin import Margin
from unseen.losses.multi_similarity import MultiSimilarity
from unseen.losses.normalized_softmax import NormalizedSoftmax
from unseen.losses.pairs import Pairs
from unseen.losses.proxy_anchor import ProxyAnchor
from unseen.losses.triplet import Triplet
from unseen.losses.tuples import PairIndices, PairMasks, Triplets, Usage

__all__ = [
    "Contrastive",
    "Margin",
    "MultiSimilarity",
    "NormalizedSoftmax",
    "PairIndices",
    "PairMasks",
    "Pairs",
    "ProxyAnchor",
    "Triplet",
    "Triplets",
    "Usage",
]
