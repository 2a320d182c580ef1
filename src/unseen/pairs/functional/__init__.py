"""Differentiable building blocks of losses, each with a hand-written backward pass that is tested against autograd."""

from unseen.pairs.functional.autograd import SecondDerivativeError, first_order, weighted_sum, with_gradient
from unseen.pairs.functional.exponentials import (
    log1p_sum_exp,
    log_sum_exp,
    masked_softmax,
    soft_extremes,
    soft_maximum,
    soft_minimum,
)
from unseen.pairs.functional.hinges import (
    Hinges,
    PairClasses,
    PairHinges,
    disjoint_hinges,
    pair_hinges,
    triplet_hinges,
)
from unseen.pairs.functional.masks import (
    as_numbers,
    masked_mean,
    masked_row_sums,
    masked_sum,
    row_counts,
    selected_columns,
)
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
    "PairHinges",
    "SecondDerivativeError",
    "SoftHistogram",
    "as_numbers",
    "cosines",
    "cosines_from_products",
    "disjoint_hinges",
    "distance_of",
    "euclidean_distances",
    "first_order",
    "inner_products",
    "log1p_sum_exp",
    "log_sum_exp",
    "masked_mean",
    "masked_row_sums",
    "masked_softmax",
    "masked_sum",
    "pair_hinges",
    "row_counts",
    "selected_columns",
    "soft_extremes",
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
