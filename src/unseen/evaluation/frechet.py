r"""Frechet distance of two sets of features, each described as a Gaussian by its mean and covariance.

.. math:: d^2 = |m_1 - m_2|^2 + \operatorname{tr} C_1 + \operatorname{tr} C_2 - 2 \operatorname{tr} (C_1 C_2)^{1/2}

With :math:`C = F^\top F` the last trace is the sum of the singular values of :math:`F_1 F_2^\top`: no matrix root is
needed, and covariances may be singular. F are the centred rows over :math:`\sqrt{n - 1}` if there are no more rows
than dimensions, so that the matrix is as small as the sets; otherwise F is the Cholesky factor of C, or comes from its
eigenvectors if C is (nearly) singular.

**Small samples.** Two samples of one distribution are not at distance 0: the means differ by tr C (1/n_1 + 1/n_2) on
average, and where n is not far above the number of dimensions the covariances differ by much more (at n < d they share
hardly any direction). Compare distances of sets of equal size only, or correct them (`shifts.corrected_distance`).
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unseen.core.checks import check_at_least
from unseen.core.errors import BatchError
from unseen.evaluation.exact.arrays import Floats, Integers

Features: TypeAlias = Tensor | NDArray[np.floating]

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter of a set of features; + joins sets, - removes a subset.

    Removing is as accurate as joining unless the remaining set is much smaller than the removed one.

    Shape:   features of d dimensions -> ``mean`` (d), ``scatter`` (d, d), the sum of the products of centred features
    Raises:  BatchError if no feature would remain
    """

    count: int
    mean: Floats
    scatter: Floats

    def __add__(self, other: "Moments") -> "Moments":
        return self._combined(other, 1)

    def __sub__(self, other: "Moments") -> "Moments":
        if other.count >= self.count:
            raise BatchError("no features would remain", got=f"{self.count} without {other.count}")
        return self._combined(other, -1)

    def _combined(self, other: "Moments", sign: int) -> "Moments":
        count = self.count + sign * other.count
        step = other.mean - self.mean
        mean = self.mean + step * (sign * other.count / count)
        between = np.outer(step, step) * (sign * self.count * other.count / count)
        return Moments(count, mean, self.scatter + sign * other.scatter + between)

    @property
    def covariance(self) -> Floats:
        """The unbiased covariance.

        Raises: BatchError for fewer than two features
        """
        _check_count(self.count)
        return self.scatter / (self.count - 1)


def moments(features: Features) -> Moments:
    """Count, mean and scatter of the rows, in two passes over blocks of rows.

    Raises: BatchError for anything but a non-empty table of finite numbers
    """
    features = _read(features)
    mean = sum(_rows(features, part).sum(axis=0) for part in _parts(features)) / len(features)
    scatter = np.zeros((features.shape[1], features.shape[1]))
    for part in _parts(features):
        centred = _rows(features, part) - mean
        scatter += centred.T @ centred
    return Moments(len(features), mean, scatter)


def class_means(features: Features, classes: Integers) -> Floats:
    """The mean feature of each class.

    Shape:  n features with classes 0 ... C - 1 -> (C, d)
    """
    features = _read(features)
    sums = np.zeros((int(classes.max()) + 1, features.shape[1]))
    for part in _parts(features):
        torch.from_numpy(sums).index_add_(0, torch.from_numpy(classes[part]), torch.from_numpy(_rows(features, part)))
    return sums / np.bincount(classes)[:, None]


def frechet_distance(one: Features | Moments, two: Features | Moments, *, ridge: float = 0.0) -> float:
    """The squared Frechet distance d^2 of two sets, given as rows or as their moments.

    ``ridge`` is added to the diagonals of both covariances inside the root, as the script of Milbich et al.
    (arXiv:2107.09562) does with 1e-8; the distance of a set to itself is then slightly negative.

    Shape:   rows (n_1, d) and (n_2, d), or moments of them -> a number
    Raises:  BatchError for sets of fewer than two rows or of different widths, or values that are not finite
    """
    check_at_least("frechet_distance", "ridge", ridge, 0)
    first, second = _factored(one, ridge), _factored(two, ridge)
    overlap = _overlap(first, second).sum()
    step = first.mean - second.mean
    distance = float(step @ step + (first.spread + second.spread) - 2.0 * overlap)
    return distance if ridge else max(0.0, distance)


def overlap_roots(one: Features | Moments, two: Features | Moments) -> Floats:
    """The roots of the eigenvalues of :math:`C_1 C_2`, whose sum is the trace of the root; zeros may be left out."""
    return _overlap(_factored(one, 0.0), _factored(two, 0.0))


class _Factored(NamedTuple):
    """Mean, trace of the covariance C, and a factor F with F^T F = C + ridge.

    `is_well_conditioned`: no direction of F is so short that its square would be lost.
    """

    mean: Floats
    spread: float
    factor: Floats
    is_well_conditioned: bool = False


def _factored(features: Features | Moments, ridge: float) -> _Factored:
    if not isinstance(features, Moments):
        features = _read(features)
        _check_count(len(features))
        if len(features) <= features.shape[1] and ridge == 0:
            rows = _rows(features, slice(0, len(features)))
            mean = rows.mean(axis=0)
            factor = (rows - mean) / np.sqrt(len(rows) - 1)
            return _Factored(mean, float((factor * factor).sum()), factor)
        features = moments(features)
    covariance = features.covariance
    mean, spread = features.mean, float(np.trace(covariance))
    ridged = covariance + ridge * np.eye(len(covariance))
    if features.count > len(covariance):
        # A Cholesky factor takes a tenth of the time of eigenvectors, if the covariance is well conditioned.
        try:
            triangle = np.linalg.cholesky(ridged)
        except np.linalg.LinAlgError:
            triangle = np.zeros((1, 1))
        diagonal = np.diag(triangle)
        if diagonal.min() > 1e-4 * diagonal.max():
            return _Factored(mean, spread, np.asarray(triangle.T, np.float64), is_well_conditioned=True)
    values, vectors = np.linalg.eigh(ridged)
    # Smaller eigenvalues are rounding errors of the largest, and their roots would not be small.
    is_significant = values > max(0.0, values[-1]) * len(values) * np.finfo(np.float64).eps
    return _Factored(mean, spread, (vectors[:, is_significant] * np.sqrt(values[is_significant])).T)


def _overlap(one: _Factored, two: _Factored) -> Floats:
    """The singular values of F_1 F_2^T."""
    if len(one.mean) != len(two.mean):
        raise BatchError("both sets must have features of the same width", got=f"{len(one.mean)} and {len(two.mean)}")
    product = one.factor @ two.factor.T
    if one.is_well_conditioned and two.is_well_conditioned:
        # Eigenvalues of the square take half the time of singular values.
        return np.sqrt(np.maximum(np.linalg.eigvalsh(product.T @ product), 0.0))
    return np.asarray(np.linalg.svd(product, compute_uv=False), np.float64)


def _read(features: Features) -> Features:
    features = features.detach() if isinstance(features, Tensor) else np.asanyarray(features)
    if features.ndim != 2 or 0 in features.shape:
        raise BatchError("features must have the shape (images, dimensions)", got=tuple(features.shape))
    return features


def _parts(features: Features) -> list[slice]:
    return [slice(start, start + _ROWS_AT_ONCE) for start in range(0, len(features), _ROWS_AT_ONCE)]


def _rows(features: Features, part: slice) -> Floats:
    block = features[part]
    rows = block.to("cpu", torch.float64).numpy() if isinstance(block, Tensor) else np.array(block, dtype=np.float64)
    if not np.isfinite(rows).all():
        row = part.start + int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise BatchError(
            f"the feature of row {row} holds a value that is not finite", hint="Remove rows with NaN or inf."
        )
    return rows


def _check_count(count: int) -> None:
    if count < 2:
        raise BatchError("a covariance needs at least two features", got=count)
