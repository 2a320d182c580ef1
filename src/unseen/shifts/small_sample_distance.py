r"""Frechet distances of small samples: corrected for the sample size, or refused.

The plain distance of two samples of one distribution grows with dimensions over samples: at n = 2 d it is as large as
the total variance. Both of its parts are corrected.

.. math:: \hat d^2 = |m_1 - m_2|^2 - \frac{\operatorname{tr} C_1}{n_1} - \frac{\operatorname{tr} C_2}{n_2}
          + \operatorname{tr} C_1 + \operatorname{tr} C_2 - 4 k \sum_i \bigl(\sqrt{\lambda_i} - \sqrt{\xi_i}\bigr)

=========  ========================================================================================
C, m       covariances and means of samples of :math:`n_1` and :math:`n_2` rows
lambda     eigenvalues of :math:`C_1 C_2`, both from n rows, the smaller of the two numbers
xi         eigenvalues of :math:`\operatorname{diag}(\lambda) - \sqrt\lambda \sqrt\lambda^\top / k`
k          (n - 1) / kappa; kappa is the fourth moment of the rows' norms relative to that of Gaussians
=========  ========================================================================================

For large d and n in a fixed ratio the last sum tends to the trace of the root of the true covariances' product. Norms
that vary more than a Gaussian's make a sample worth fewer rows; kappa takes that into account to first order. On pooled
features of CUB (1,280 dimensions) two random samples have a plain distance of 14.1 with 5,894 rows each and of 47.2
with 1,700; corrected it is 1.8 and 5.9.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unseen.core.checks import check_count
from unseen.core.errors import BatchError, DataError
from unseen.core.randomness import derive, numpy_generator
from unseen.evaluation.frechet import Moments, moments, overlap_roots

ROWS_PER_DIMENSION = 1.25
"""Rows per dimension that the correction needs at least."""

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class CorrectedDistance:
    """A corrected distance, the plain one of the same rows, and the numbers of rows and dimensions.

    ``value`` scatters around the true distance, so it may be below 0 for samples of one distribution.
    """

    value: float
    plain: float
    rows: tuple[int, int]
    dimensions: int


def corrected_trace(roots: NDArray[np.float64], freedom: float) -> float:
    r"""The trace of the root of the product of two covariances, corrected for the sample size.

    Shape:      d roots of eigenvalues of C_1 C_2, each covariance of ``freedom`` + 1 Gaussian rows -> a number
    Reference:  Tiomoko and Couillet, Random Matrix-Improved Estimation of the Wasserstein Distance between two Centered
                Gaussian Distributions, 2019, arXiv:1903.03447, for samples of one size
    """
    # Divided by the largest, so that rounding is relative to the scale of the features.
    scale = float(roots.max()) or 1.0
    unit = roots / scale
    inner = np.linalg.eigvalsh(np.diag(unit**2) - np.outer(unit, unit) / freedom)
    return 2 * freedom * scale * float(unit.sum() - np.sqrt(np.maximum(inner, 0.0)).sum())


def relative_kurtosis(rows: NDArray[np.floating], known: Moments) -> float:
    r"""How much more the norms of rows vary than a Gaussian's, by :math:`E|x|^4 / (E|x|^2)^2`; 1 for a Gaussian."""
    parts = (rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE))
    squares = np.concatenate([((np.asarray(part, np.float64) - known.mean) ** 2).sum(axis=1) for part in parts])
    covariance = known.covariance
    variance = float(np.trace(covariance))
    if variance == 0:
        return 1.0
    gaussian = 2 * float((covariance**2).sum()) / variance**2
    return max(1.0, float((squares**2).mean() / squares.mean() ** 2) - gaussian)


def corrected_distance(
    one: NDArray[np.floating], two: NDArray[np.floating], *, dimensions: int | None = None, seed: int = 0
) -> CorrectedDistance:
    """The squared Frechet distance between the distributions of two samples.

    ``dimensions`` measures only along the leading principal directions of the first sample, where a sample is too small
    for all; a distance along fewer directions is never larger. The trace of the root uses equally many rows of both,
    drawn at random from the larger sample; means and variances use all rows.

    Shape:   rows (n_1, d) and (n_2, d) -> a number
    Raises:  DataError for a sample of fewer than 1.25 rows per dimension; BatchError for rows that are not numbers
    """
    check_count("corrected_distance", "seed", seed, at_least=0)
    first, second = moments(one), moments(two)
    width = len(first.mean)
    if width != len(second.mean):
        raise BatchError("both samples must have features of the same width", got=f"{width} and {len(second.mean)}")
    if dimensions is not None:
        check_count("corrected_distance", "dimensions", dimensions)
        width = min(width, dimensions)
    fewest = min(first.count, second.count)
    if fewest >= 2 and width < len(first.mean):
        directions = np.linalg.eigh(first.covariance)[1][:, -width:]
        one, two = (np.asarray(rows, np.float64) @ directions for rows in (one, two))
        first, second = moments(one), moments(two)
    kurtosis = float(np.sqrt(relative_kurtosis(one, first) * relative_kurtosis(two, second))) if fewest >= 2 else 1.0
    if fewest / kurtosis < ROWS_PER_DIMENSION * width:
        needed, most = int(np.ceil(ROWS_PER_DIMENSION * width * kurtosis)), int(fewest / kurtosis / ROWS_PER_DIMENSION)
        raise DataError(
            f"{fewest:,} samples are too few for a distance in {width:,} dimensions",
            hint=f"Use at least {needed:,} samples" + (f", or at most {most:,} dimensions." if most else "."),
        )
    equal = []
    for rows, own in ((one, first), (two, second)):
        order = numpy_generator(derive(seed, "rows of the larger sample")).permutation(len(rows))
        equal.append(own if own.count == fewest else moments(rows[np.sort(order[:fewest])]))
    variance = float(np.trace(first.covariance) + np.trace(second.covariance))
    mean_difference = float(((first.mean - second.mean) ** 2).sum())
    noise = float(np.trace(first.covariance) / first.count + np.trace(second.covariance) / second.count)
    roots = overlap_roots(*equal)
    return CorrectedDistance(
        value=mean_difference - noise + variance - 2 * corrected_trace(roots, (fewest - 1) / kurtosis),
        plain=mean_difference + variance - 2 * float(overlap_roots(first, second).sum()),
        rows=(first.count, second.count),
        dimensions=width,
    )
