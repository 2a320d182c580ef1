"""Hashes of the content of rows and classes: an order that depends neither on storage nor on names."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.exact.arrays import Integers
from unseen.evaluation.exact.directions import Directions

Keys = NDArray[np.uint64]

_ROWS_AT_ONCE = 2048


def row_keys(directions: Directions) -> Keys:
    """A 128-bit hash of each row's direction as two 64-bit numbers; equal directions have equal keys.

    Shape:  n rows -> (n, 2)
    """
    digests = []
    for start in range(0, len(directions), _ROWS_AT_ONCE):
        block = directions.integers(slice(start, start + _ROWS_AT_ONCE)).numpy()
        digests += [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in block]
    return np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)


def class_keys(keys: Keys, classes: Integers) -> Keys:
    """Keys of classes: a function of the directions in each class.

    Shape:  n rows of C classes -> (C, 2)
    """
    sums = np.zeros((int(classes.max(initial=-1)) + 1, 2), dtype=np.uint64)
    # Sums modulo 2^64 do not depend on the order of the rows.
    np.add.at(sums, classes, keys)
    return sums


def order_of(keys: Keys, groups: Integers | None = None) -> Integers:
    """The rows sorted by key; with groups, one group after another."""
    columns = (keys[:, 1], keys[:, 0])
    return np.lexsort(columns if groups is None else (*columns, groups))
