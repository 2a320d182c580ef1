r"""Frechet distance: how far two sets of features are apart, as Gaussians with their means and covariances.

.. math:: d^2 = |m_1 - m_2|^2 + \operatorname{tr} C_1 + \operatorname{tr} C_2 - 2 \operatorname{tr} (C_1 C_2)^{1/2}

With :math:`C = F^\top F` the last trace is the sum of the singular values of :math:`F_1 F_2^\top`: no root of a matrix
is taken, and covariances may be singular. F are the centred rows over :math:`\sqrt{n - 1}` where there are no more rows
than dimensions, so that the matrix is as small as the sets; otherwise F comes from the Cholesky triangle of C, or from
its eigenvectors where C is (nearly) singular.

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

Values = NDArray[np.float64]
Features: TypeAlias = Tensor | NDArray[np.floating]

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and scatter of a set of features; sets are joined by + and parted by -.

    Parting is as accurate as joining while the set that is left is not much smaller than the one taken away.

    Shape:   features of d dimensions -> ``mean`` (d), ``scatter`` (d, d), the sum of the products of centred features
    Raises:  BatchError when more is taken away than is there
    """

    count: int
    mean: Values
    scatter: Values

    def __add__(self, other: "Moments") -> "Moments":
        return self._joined(other, 1)

    def __sub__(self, other: "Moments") -> "Moments":
        if other.count >= self.count:
            raise BatchError("no features would be left", got=f"{self.count} without {other.count}")
        return self._joined(other, -1)

    def _joined(self, other: "Moments", sign: int) -> "Moments":
        count = self.count + sign * other.count
        step = other.mean - self.mean
        mean = self.mean + step * (sign * other.count / count)
        between = np.outer(step, step) * (sign * self.count * other.count / count)
        return Moments(count, mean, self.scatter + sign * other.scatter + between)

    @property
    def covariance(self) -> Values:
        """The unbiased covariance.

        Raises: BatchError for fewer than two features
        """
        _check_count(self.count)
        return self.scatter / (self.count - 1)


def moments(features: Features) -> Moments:
    """Count, mean and scatter of the rows, in two passes over blocks of rows.

    Raises: BatchError for what is no table of finite numbers, or has no row
    """
    features = _read(features)
    mean = sum(_rows(features, part).sum(axis=0) for part in _parts(features)) / len(features)
    scatter = np.zeros((features.shape[1], features.shape[1]))
    for part in _parts(features):
        centred = _rows(features, part) - mean
        scatter += centred.T @ centred
    return Moments(len(features), mean, scatter)


def class_means(features: Features, classes: NDArray[np.int64]) -> Values:
    """The mean feature of each class; distances of class means are the class level of O (SPEC 5.1).

    Shape:  n features with classes 0 ... C - 1 -> (C, d)
    """
    features = _read(features)
    sums = np.zeros((int(classes.max()) + 1, features.shape[1]))
    for part in _parts(features):
        torch.from_numpy(sums).index_add_(0, torch.from_numpy(classes[part]), torch.from_numpy(_rows(features, part)))
    return sums / np.bincount(classes)[:, None]


def frechet_distance(one: Features | Moments, two: Features | Moments, *, ridge: float = 0.0) -> float:
    """The squared Frechet distance d^2 of two sets, given as rows or as their moments.

    ``ridge`` is added to the diagonals of both covariances inside the root, as the authors' script does with 1e-8
    (SPEC 5.1); the distance of a set to itself is then slightly below 0.

    Shape:   rows (n_1, d) and (n_2, d), or moments of them -> a number
    Raises:  BatchError for sets of fewer than two rows or of different widths, or numbers that are not finite
    """
    check_at_least("frechet_distance", "ridge", ridge, 0)
    first, second = _factored(one, ridge), _factored(two, ridge)
    overlap = _overlap(first, second).sum()
    step = first.mean - second.mean
    distance = float(step @ step + (first.spread + second.spread) - 2.0 * overlap)
    return distance if ridge else max(0.0, distance)


def overlap_roots(one: Features | Moments, two: Features | Moments) -> Values:
    """The roots of the eigenvalues of :math:`C_1 C_2`, whose sum is the trace of the root; zeros may be left out."""
    return _overlap(_factored(one, 0.0), _factored(two, 0.0))


class _Factored(NamedTuple):
    """Mean, trace of the covariance C, and a factor F of C + ridge with F^T F = C + ridge.

    `is_firm`: no direction of F is so short that squares of it would be lost.
    """

    mean: Values
    spread: float
    factor: Values
    is_firm: bool = False


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
        # A triangle is found in a tenth of the time of eigenvectors, where every direction has its spread.
        try:
            triangle = np.linalg.cholesky(ridged)
        except np.linalg.LinAlgError:
            triangle = np.zeros((1, 1))
        diagonal = np.diag(triangle)
        if diagonal.min() > 1e-4 * diagonal.max():
            return _Factored(mean, spread, np.asarray(triangle.T, np.float64), is_firm=True)
    values, vectors = np.linalg.eigh(ridged)
    # What is smaller is the rounding of the largest; its root would not be small.
    kept = values > max(0.0, values[-1]) * len(values) * np.finfo(np.float64).eps
    return _Factored(mean, spread, (vectors[:, kept] * np.sqrt(values[kept])).T)


def _overlap(one: _Factored, two: _Factored) -> Values:
    """The singular values of F_1 F_2^T."""
    if len(one.mean) != len(two.mean):
        raise BatchError("both sets must have features of one width", got=f"{len(one.mean)} and {len(two.mean)}")
    product = one.factor @ two.factor.T
    if one.is_firm and two.is_firm:
        # Eigenvalues of the square are found in half the time of singular values.
        return np.sqrt(np.maximum(np.linalg.eigvalsh(product.T @ product), 0.0))
    return np.asarray(np.linalg.svd(product, compute_uv=False), np.float64)


def _read(features: Features) -> Features:
    features = features.detach() if isinstance(features, Tensor) else np.asanyarray(features)
    if features.ndim != 2 or 0 in features.shape:
        raise BatchError("features must have the shape (images, dimensions)", got=tuple(features.shape))
    return features


def _parts(features: Features) -> list[slice]:
    return [slice(start, start + _ROWS_AT_ONCE) for start in range(0, len(features), _ROWS_AT_ONCE)]


def _rows(features: Features, part: slice) -> Values:
    taken = features[part]
    rows = taken.to("cpu", torch.float64).numpy() if isinstance(taken, Tensor) else np.array(taken, dtype=np.float64)
    if not np.isfinite(rows).all():
        row = part.start + int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise BatchError(f"the feature of row {row} holds a value that is not finite", hint="Use no NaN and no inf.")
    return rows


def _check_count(count: int) -> None:
    if count < 2:
        raise BatchError("a covariance needs at least two features", got=count)
