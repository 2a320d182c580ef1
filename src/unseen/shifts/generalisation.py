"""Generalisation: what a score is worth over all distances, and how methods change places between them."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from unseen.core.errors import ConfigError

Values = NDArray[np.float64]


def aggregated_score(distances: Sequence[float], scores: ArrayLike) -> Values:
    r"""The aggregated generalisation score: the area under a score over the distances, scaled to [0, 1].

    .. math:: \int_0^1 s(x)\,dx, \qquad x = \frac{d - d_{min}}{d_{max} - d_{min}}

    by trapezoids between the rungs, whatever their order.

    Shape:      n distances, scores (..., n) -> (...)
    Reference:  Milbich et al., NeurIPS 2021, arXiv:2107.09562 (SPEC 5.5)
    Raises:     ConfigError for fewer than two different distances, or scores of other rungs than the distances
    """
    places, values = np.asarray(distances, np.float64), np.asarray(scores, np.float64)
    if places.ndim != 1 or values.ndim == 0 or values.shape[-1] != len(places):
        raise ConfigError(
            "aggregated_score: there must be one score for each distance", got=f"{places.shape} and {values.shape}"
        )
    if not np.isfinite(places).all() or len(np.unique(places)) < max(2, len(places)):
        raise ConfigError("aggregated_score: distances must be finite and differ, two or more", got=places.tolist())
    order = np.argsort(places)
    scaled = (places[order] - places.min()) / (places.max() - places.min())
    return np.trapezoid(values[..., order], scaled, axis=-1)


def ranks(scores: Mapping[str, Sequence[float]], *, higher_is_better: bool = True) -> dict[str, Values]:
    """The rank of each method on each rung, 1 for the best; tied methods share the mean of their ranks.

    Empty:  a score that is not a number ranks last
    """
    table = _table(scores)
    worst = np.where(np.isnan(table), np.inf, -table if higher_is_better else table)
    return dict(zip(scores, rankdata(worst, axis=0), strict=True))


def rank_changes(scores: Mapping[str, Sequence[float]], *, higher_is_better: bool = True) -> dict[str, Values]:
    """Places that each method gains (> 0) or loses from one rung to the next."""
    return {name: -np.diff(own) for name, own in ranks(scores, higher_is_better=higher_is_better).items()}


def relative_to_mean(scores: Mapping[str, Sequence[float]]) -> dict[str, Values]:
    """By what share each method lies above (> 0) or below the mean of all methods, on each rung.

    Empty:  where the mean is 0 there is no share: not a number
    """
    table = _table(scores)
    mean = table.mean(axis=0)
    share = np.full(table.shape, np.nan)
    np.divide(table - mean, np.abs(mean), out=share, where=mean != 0)
    return dict(zip(scores, share, strict=True))


def _table(scores: Mapping[str, Sequence[float]]) -> Values:
    lengths = {len(values) for values in scores.values()}
    if len(lengths) != 1:
        raise ConfigError("every method must have one score on each rung", got=sorted(lengths))
    return np.array(list(scores.values()), np.float64)
