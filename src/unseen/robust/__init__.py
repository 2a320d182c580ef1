"""Robust objectives: the worst-case weighted mean of pair losses over an uncertainty set of weights."""

from unseen.robust.chi_square import ChiSquare as ChiSquare
from unseen.robust.grouped_kl import GroupedKL as GroupedKL
from unseen.robust.kl import KL as KL
from unseen.robust.max import Max as Max
from unseen.robust.mean import Mean as Mean
from unseen.robust.robust import Robust as Robust
from unseen.robust.top_k import TopK as TopK
from unseen.robust.top_k import TopKBalanced as TopKBalanced
