"""Differentiable building blocks of losses, each with a hand-written backward pass that is tested against autograd."""

from unseen.pairs.functional.autograd import SecondDerivativeError, first_order, weighted_sum, with_gradient
from unseen.pairs.functional.exponentials import log1p_sum_exp, log_sum_exp, masked_softmax, soft_maximum, soft_minimum
from unseen.pairs.functional.hinges import (
    Hinges,
    PairClasses,
    RowHinges,
    disjoint_hinges,
    hinges_above,
    hinges_below,
    triplet_hinges,
)
from unseen.pairs.functional.masks import as_numbers, masked_mean, masked_row_sums, row_counts, selected_columns
from unseen.pairs.functional.ranks import SoftHistogram, soft_histogram, soft_ranks
from unseen.pairs.functional.vectors import (
    DISTANCE_EPSILON,
    ORDINARY,
    SHORTEST,
    cosines,
    cosines_from_products,
    distance_of,
    euclidean_distances,
    inner_products,
    squared_distance_of,
    unit_vectors,
)

__all__ = [
    "DISTANCE_EPSILON",
    "ORDINARY",
    "SHORTEST",
    "Hinges",
    "PairClasses",
    "RowHinges",
    "SecondDerivativeError",
    "SoftHistogram",
    "as_numbers",
    "cosines",
    "cosines_from_products",
    "disjoint_hinges",
    "distance_of",
    "euclidean_distances",
    "first_order",
    "hinges_above",
    "hinges_below",
    "inner_products",
    "log1p_sum_exp",
    "log_sum_exp",
    "masked_mean",
    "masked_row_sums",
    "masked_softmax",
    "row_counts",
    "selected_columns",
    "soft_histogram",
    "soft_maximum",
    "soft_minimum",
    "soft_ranks",
    "squared_distance_of",
    "triplet_hinges",
    "unit_vectors",
    "weighted_sum",
    "with_gradient",
]
