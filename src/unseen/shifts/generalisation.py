"""Generalisation: scores aggregated over the rungs of a ladder, and how the ranks of methods change between them."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from unseen.core.errors import ConfigError

Values = NDArray[np.float64]


def aggregated_score(distances: ArrayLike, scores: ArrayLike) -> Values:
    r"""The aggregated generalisation score: the area under a score over the distances, scaled to [0, 1].

    .. math:: \int_0^1 s(x)\,dx, \qquad x = \frac{d - d_{min}}{d_{max} - d_{min}}

    by trapezoids between the rungs, whatever their order.

    Shape:      n distances, scores (..., n) -> (...)
    Reference:  Milbich et al., NeurIPS 2021, arXiv:2107.09562
    Raises:     ConfigError for fewer than two different distances, or not one score for each distance
    """
    positions, values = np.asarray(distances, np.float64), np.asarray(scores, np.float64)
    if positions.ndim != 1 or values.ndim == 0 or values.shape[-1] != len(positions):
        raise ConfigError(
            "aggregated_score: there must be one score for each distance", got=f"{positions.shape} and {values.shape}"
        )
    if not np.isfinite(positions).all() or len(np.unique(positions)) < max(2, len(positions)):
        raise ConfigError(
            "aggregated_score: distances must be at least two, finite and different", got=positions.tolist()
        )
    order = np.argsort(positions)
    scaled = (positions[order] - positions.min()) / (positions.max() - positions.min())
    return np.trapezoid(values[..., order], scaled, axis=-1)


def ranks(scores: Mapping[str, Sequence[float]], *, higher_is_better: bool = True) -> dict[str, Values]:
    """The rank of each method on each rung, 1 for the best; tied methods share the mean of their ranks.

    Empty:  a score that is not a number ranks last
    """
    table = _table(scores)
    worst = np.where(np.isnan(table), np.inf, -table if higher_is_better else table)
    return dict(zip(scores, rankdata(worst, axis=0), strict=True))


def rank_changes(scores: Mapping[str, Sequence[float]], *, higher_is_better: bool = True) -> dict[str, Values]:
    """The ranks that each method gains (> 0) or loses from one rung to the next."""
    return {name: -np.diff(own) for name, own in ranks(scores, higher_is_better=higher_is_better).items()}


def relative_to_mean(scores: Mapping[str, Sequence[float]]) -> dict[str, Values]:
    """The relative difference of each method to the mean of all methods, on each rung.

    Empty:  NaN where the mean is 0
    """
    table = _table(scores)
    mean = table.mean(axis=0)
    difference = np.full(table.shape, np.nan)
    np.divide(table - mean, np.abs(mean), out=difference, where=mean != 0)
    return dict(zip(scores, difference, strict=True))


def _table(scores: Mapping[str, Sequence[float]]) -> Values:
    lengths = {len(values) for values in scores.values()}
    if len(lengths) != 1:
        raise ConfigError("every method must have one score on each rung", got=sorted(lengths))
    return np.array(list(scores.values()), np.float64)
