"""Losses: what pulls a class together and pushes classes apart."""

from unseen.losses.angular import Angular
from unseen.losses.arc_face import ArcFace
from unseen.losses.binomial_pair import BinomialPair
from unseen.losses.circle import Circle
from unseen.losses.contrastive import Contrastive
from unseen.losses.contrastive_pair import ContrastivePair
from unseen.losses.cross_batch_memory import CrossBatchMemory
from unseen.losses.generalized_lifted import GeneralizedLifted
from unseen.losses.hap2s import HAP2S
from unseen.losses.histogram import Histogram
from unseen.losses.lifted_structure import LiftedStructure
from unseen.losses.margin import Margin
from unseen.losses.margin_pair import MarginPair
from unseen.losses.multi_similarity import MultiSimilarity
from unseen.losses.n_pair import NPair
from unseen.losses.normalized_softmax import NormalizedSoftmax
from unseen.losses.proxy_anchor import ProxyAnchor
from unseen.losses.proxy_nca import ProxyNCA
from unseen.losses.quadruplet import Quadruplet
from unseen.losses.smooth_ap import SmoothAP
from unseen.losses.snr import SNR
from unseen.losses.soft_triple import SoftTriple
from unseen.losses.sup_con import SupCon
from unseen.losses.top_k_precision import TopKPrecision
from unseen.losses.triplet import Triplet
from unseen.pairs.pair_terms import PairTerms
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import PairIndices, PairMasks, Triplets, Usage

__all__ = [
    "HAP2S",
    "SNR",
    "Angular",
    "ArcFace",
    "BinomialPair",
    "Circle",
    "Contrastive",
    "ContrastivePair",
    "CrossBatchMemory",
    "GeneralizedLifted",
    "Histogram",
    "LiftedStructure",
    "Margin",
    "MarginPair",
    "MultiSimilarity",
    "NPair",
    "NormalizedSoftmax",
    "PairIndices",
    "PairMasks",
    "PairTerms",
    "Pairs",
    "ProxyAnchor",
    "ProxyNCA",
    "Quadruplet",
    "SmoothAP",
    "SoftTriple",
    "SupCon",
    "TopKPrecision",
    "Triplet",
    "Triplets",
    "Usage",
]
