"""Robust objectives: the worst-case weighted mean of pair losses over an uncertainty set of weights."""

from unseen.robust.chi_square import ChiSquare
from unseen.robust.grouped_kl import GroupedKL
from unseen.robust.kl import KL
from unseen.robust.max import Max
from unseen.robust.mean import Mean
from unseen.robust.robust import Robust
from unseen.robust.top_k import TopK
from unseen.robust.top_k_balanced import TopKBalanced

__all__ = [
    "KL",
    "ChiSquare",
    "GroupedKL",
    "Max",
    "Mean",
    "Robust",
    "TopK",
    "TopKBalanced",
]
