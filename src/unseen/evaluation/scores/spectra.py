r"""Singular values of the embeddings: how evenly they use their dimensions.

Directions are integers (`exact.directions`). Their Gram matrix is added up in two halves of 13 bits each, whose
products and sums float64 holds exactly, so it does not depend on the order of the rows, the block size or the threads.

**Accuracy.** A Gram matrix squares the singular values: relative to the largest, values near 1e-3 keep 10 digits,
values near 1e-6 four. What is lost lies below the rounding of the directions: a value of at most
:math:`\sqrt d\, 2^{-26}` of the largest (3e-7 in 512 dimensions) can come from rounding alone and counts as 0. Small
tables, where it costs little, are decomposed directly.
"""

from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from unseen.core.checks import check_choice, check_count
from unseen.core.registry import score
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.directions import SCALE, Directions
from unseen.evaluation.exact.row_hashes import order_of, row_keys
from unseen.evaluation.scores.base import Score

FLOOR = 1e-12
_ROWS_AT_ONCE = 2048
_NUMBERS_TO_DECOMPOSE = 2**19
_HALF = 2.0**13


class ClassSpectra(NamedTuple):
    """Spectra of the classes, each sorted and summing to 1 before it is truncated, and their mean.

    Shape:  C classes, L values -> ``classes`` (C, L), ``mean`` (L)
    """

    classes: Floats
    mean: Floats


def singular_values(directions: Directions) -> Floats:
    """All singular values of the matrix of unit vectors, not centred, largest first.

    Shape:  n rows of d dimensions -> (d), with zeros behind the first n
    """
    # One thread: decompositions on several threads differ in the last bits.
    with threadpool_limits(1, user_api="blas"):
        return _values_of(directions)


def _values_of(directions: Directions) -> Floats:
    count, width = len(directions), directions.width
    values = np.zeros(width)
    if count <= width or count * width <= _NUMBERS_TO_DECOMPOSE:
        rows = directions.integers(order_of(row_keys(directions))).numpy()
        values[: min(count, width)] = np.linalg.svd(rows / SCALE, compute_uv=False)
    else:
        values[:] = _roots(_gram(directions))
    return _without_rounding(values)


def _roots(gram: Floats) -> Floats:
    return np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))


def _without_rounding(values: Floats) -> Floats:
    return np.where(values <= np.sqrt(len(values)) / SCALE * values[0], 0.0, values)


def singular_values_without(directions: Directions, groups: Integers, count: int) -> list[Floats]:
    """The singular values without the rows of each group 0 ... count - 1, all from one pass over the rows."""
    with threadpool_limits(1, user_api="blas"):
        grams = [_gram(directions.take(np.flatnonzero(groups == group))) for group in range(count)]
        integers = np.sum(grams, axis=0)
        return [_without_rounding(_roots(integers - gram)) for gram in grams]


def _gram(directions: Directions) -> Floats:
    """The Gram matrix of the dimensions, exact up to one rounding of each entry.

    A coordinate is high * 2^13 + low with |high| <= 2^13 and |low| <= 2^12: sums of their products stay below 2^53 for
    up to 2^27 rows.
    """
    width = directions.width
    high_high, high_low, low_low = np.zeros((3, width, width))
    for start in range(0, len(directions), _ROWS_AT_ONCE):
        integers = directions.integers(slice(start, start + _ROWS_AT_ONCE)).numpy()
        high = np.rint(integers / _HALF)
        low = integers - high * _HALF
        high_high += high.T @ high
        high_low += high.T @ low
        low_low += low.T @ low
    return (high_high * _HALF**2 + ((high_low + high_low.T) * _HALF + low_low)) / SCALE**2


def spectral_decay(values: Floats, *, k: int = 1) -> float:
    r"""Divergence of the singular values, from the k-th on, from a uniform spectrum.

    .. math:: \rho = \mathrm{KL}(U_D \| q) = -\log D - \tfrac1D \sum_i \log q_i

    q_i is the i-th value over the sum of all, at least 1e-12, and D the number of values; a table with fewer rows than
    dimensions has zeros among them.

    Empty:      values that are all 0 count as fully decayed, each q_i at its floor; without any value the decay is 0
    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473
    """
    values = values[k - 1 :]
    if len(values) == 0:
        return 0.0
    shares = np.maximum(over_sum(values), FLOOR)
    return max(0.0, float(-np.log(len(values)) - np.log(shares).sum() / len(values)))


def reverse_decay(values: Floats) -> float:
    r"""The reverse divergence, :math:`\mathrm{KL}(q \| U_D) = \log D + \sum_i q_i \log q_i`; needs no floor.

    Empty:  values that are all 0 count as fully decayed: log D
    """
    shares = over_sum(values)
    shares = shares[shares > 0]
    return max(0.0, float(np.log(len(values)) + (shares * np.log(shares)).sum()))


def over_sum(values: Floats) -> Floats:
    """Singular values divided by their sum, so that spectra of any size compare; zeros stay zeros."""
    total = values.sum()
    return values / total if total > 0 else np.zeros_like(values)


def class_spectra(
    directions: Directions, classes: Integers, *, first: int = 35, short: Literal["pad", "truncate"] = "pad"
) -> ClassSpectra:
    """The ``first`` singular values of each class by itself, sorted, divided by the sum of all.

    If ``short`` is "pad", a class of fewer images is padded with zeros; "truncate" cuts all classes to the shortest.

    Empty:  a class of zeros has a spectrum of zeros
    Raises: ConfigError for settings out of range
    """
    check_count("class_spectra", "first", first)
    check_choice("class_spectra", "short", short, ("pad", "truncate"))
    sizes = np.bincount(classes)
    length = first if short == "pad" else min(first, directions.width, int(sizes.min()))
    spectra = np.zeros((len(sizes), length))
    order = np.argsort(classes, kind="stable")
    with threadpool_limits(1, user_api="blas"):
        for number, members in enumerate(np.split(order, np.cumsum(sizes)[:-1])):
            spectrum = over_sum(_values_of(directions.take(members)))[:length]
            spectra[number, : len(spectrum)] = spectrum
    return ClassSpectra(spectra, spectra.mean(axis=0))


@score("rho")
class Rho(Score):
    """Spectral decay: how unevenly the embeddings use their dimensions; largest for collapsed embeddings.

    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473
    """

    basis = "spectrum"
    higher_is_better = False
    bounds = (0.0, float("inf"))
    collapsed = "worst"
    definition = "KL(uniform || singular values of the unit vectors, over their sum, at least 1e-12)"

    def __call__(self, values: Floats) -> float:
        """One value for all singular values."""
        return spectral_decay(values)


@score("rho@2")
class RhoAt2(Rho):
    """Spectral decay without the largest singular value, which mostly reflects the common mean."""

    definition = "KL(uniform || singular values of the unit vectors but the first, over their sum, at least 1e-12)"
    __call__ = staticmethod(partial(spectral_decay, k=2))


@score("rho_reverse")
class RhoReverse(Rho):
    """Spectral decay by the reverse divergence, which small singular values hardly affect."""

    definition = "KL(singular values of the unit vectors, over their sum || uniform)"
    __call__ = staticmethod(reverse_decay)
