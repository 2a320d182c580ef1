"""Directions of embeddings in whole numbers, so that their inner products are computed without any rounding.

A rounded matrix product gives other last bits for another block size, thread count or processor, and two images of one
embedding then rank apart by accident. Here each unit vector is rounded once, coordinate by coordinate, to multiples of
2^-26. Products are then multiples of 2^-52, and no partial sum exceeds the product of the two norms, so float64 holds
every one of them exactly: the inner product is the same number in any order of summation.

The rounding turns a direction by about 1e-7 (512 dimensions), as much as storing the embedding in float32 does.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unseen.core.errors import BatchError

SCALE = 2.0**26
_ROWS_AT_ONCE = 4096


class Directions(NamedTuple):
    """Unit vectors times 2^26, rounded to whole numbers, and the reciprocals of their lengths.

    Shape:  n embeddings of d dimensions -> ``units`` (n, d) and ``inverse_norms`` (n), both float64 on the CPU
    Empty:  an embedding of zeros has no direction; its similarity to everything is 0
    """

    units: Tensor
    inverse_norms: Tensor

    def take(self, rows: NDArray[np.int64]) -> "Directions":
        """The directions of some rows, in that order."""
        index = torch.from_numpy(rows)
        return Directions(self.units[index], self.inverse_norms[index])


def read_directions(embeddings: Tensor | NDArray[np.floating]) -> Directions:
    """The directions of a table of embeddings, whose lengths do not matter.

    Raises: BatchError for what is no table of finite numbers
    """
    rows = _as_tensor(embeddings)
    units = torch.empty(rows.shape, dtype=torch.float64)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[start : start + _ROWS_AT_ONCE].to(torch.float64)
        finite = torch.isfinite(block).all(dim=1)
        if not finite.all():
            row = start + int((~finite).nonzero()[0])
            raise BatchError(f"embedding {row} holds a value that is not finite", use="embeddings without NaN or inf")
        units[start : start + _ROWS_AT_ONCE] = _whole_units(block)
    # A sum of whole numbers below 2^53 is exact.
    norms = (units * units).sum(dim=1).sqrt()
    return Directions(units, torch.where(norms > 0, 1 / norms, torch.zeros_like(norms)))


def _as_tensor(embeddings: Tensor | NDArray[np.floating]) -> Tensor:
    if not isinstance(embeddings, Tensor):
        array = np.asarray(embeddings)
        if array.dtype.kind not in "fiu":
            raise BatchError("embeddings must be a table of real numbers", got=str(array.dtype))
        dtype = np.float32 if array.dtype == np.float32 else np.float64
        embeddings = torch.from_numpy(np.require(array, dtype, ["C", "W"]))
    if embeddings.ndim != 2 or embeddings.shape[1] == 0:
        raise BatchError("embeddings must have the shape (images, dimensions)", got=tuple(embeddings.shape))
    if embeddings.is_complex() or embeddings.dtype == torch.bool:
        raise BatchError("embeddings must be a table of real numbers", got=str(embeddings.dtype))
    return embeddings.detach().cpu()


def _whole_units(rows: Tensor) -> Tensor:
    """Unit vectors times 2^26 in whole numbers; each row's result depends on that row alone, to the last bit."""
    # The largest coordinate goes first, so that squares neither overflow nor vanish.
    largest = rows.abs().amax(dim=1, keepdim=True)
    rows = rows / torch.where(largest > 0, largest, torch.ones_like(largest))
    squares = rows * rows
    # Halves are added to halves: unlike a library's sum, this order is the same on every machine.
    while squares.shape[1] > 1:
        half = (squares.shape[1] + 1) // 2
        folded = squares[:, :half].clone()
        folded[:, : squares.shape[1] - half] += squares[:, half:]
        squares = folded
    norms = squares.sqrt()
    # Adding 0 turns -0.0 into 0.0: equal directions are then equal bytes.
    return (rows / torch.where(norms > 0, norms, torch.ones_like(norms)) * SCALE).round() + 0.0
