"""Keys of what rows and classes contain, so that neither the order of the rows nor the names of the classes matter."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.exact.directions import Directions

Keys = NDArray[np.uint64]

_ROWS_AT_ONCE = 2048


def row_keys(directions: Directions) -> Keys:
    """Two 64-bit numbers for each row, a function of its direction alone; equal directions have equal keys.

    Shape:  n rows -> (n, 2)
    """
    digests = []
    for start in range(0, len(directions), _ROWS_AT_ONCE):
        block = directions.whole(slice(start, start + _ROWS_AT_ONCE)).numpy()
        digests += [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in block]
    return np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)


def class_keys(keys: Keys, classes: NDArray[np.int64]) -> Keys:
    """The same for each class: a function of the directions in it.

    Shape:  n rows of C classes -> (C, 2)
    """
    sums = np.zeros((int(classes.max(initial=-1)) + 1, 2), dtype=np.uint64)
    # Sums modulo 2^64 do not depend on the order of the members.
    np.add.at(sums, classes, keys)
    return sums


def order_of(keys: Keys, groups: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The rows in the order of their keys; those of groups, if given, one group after the other."""
    columns = (keys[:, 1], keys[:, 0])
    return np.lexsort(columns if groups is None else (*columns, groups))
