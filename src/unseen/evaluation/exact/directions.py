"""Directions: unit vectors rounded to integers, so that inner products are computed without any rounding.

Embeddings stay where they are, in memory or in a mapped file; directions are computed for the rows that are asked for.
float32 unit vectors of all rows are kept if they fit the given memory: they are the integers up to a small remainder.
"""

import mmap
from collections.abc import Iterator
from contextlib import nullcontext
from threading import Lock
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unseen.core.errors import BatchError
from unseen.evaluation.exact.arrays import Int8s, Int32s, Integers
from unseen.evaluation.exact.kernels import IS_COMPILED
from unseen.evaluation.exact.threads import run_in_threads, run_serially

SCALE = 2.0**26
# A block of this many numbers stays in the cache from one step of its conversion to the next.
_NUMBERS_AT_ONCE = 2**17
# Fewer numbers are converted faster than the compiled loops are loaded.
_MANY_NUMBERS = 2**20

RowsOf: TypeAlias = slice | Integers


class Units(NamedTuple):
    """Unit vectors in float32, and what float32 rounded away.

    A coordinate below 1/4 has at most 24 binary digits, which float32 holds; only larger ones, at most 16 in a row, can
    have a remainder. ``integers = float32 * 2^26 + remainders[remainder_index[row]]``, the last term only where
    ``remainder_index[row] >= 0``.

    Shape:  n rows of d dimensions -> ``float32`` (n, d), ``remainder_index`` (n); ``remainders`` (some rows, d)
    """

    float32: Tensor
    remainder_index: Int32s
    remainders: Int8s

    def integers(self) -> Tensor:
        """The integer coordinates, in float64."""
        integers = self.float32.to(torch.float64).mul_(SCALE)
        rows = np.flatnonzero(self.remainder_index >= 0)
        if len(rows):
            integers[torch.from_numpy(rows)] += torch.from_numpy(self.remainders[self.remainder_index[rows]])
        return integers

    def take(self, rows: RowsOf) -> "Units":
        """Some of the rows; a slice does not copy."""
        index = rows if isinstance(rows, slice) else torch.from_numpy(rows)
        return Units(self.float32[index], self.remainder_index[rows], self.remainders)

    @property
    def bytes(self) -> int:
        """Memory of the three arrays."""
        return 4 * self.float32.numel() + self.remainder_index.nbytes + self.remainders.nbytes


class Directions:
    """Unit vectors times 2^26, rounded to integers, and the reciprocals of their lengths.

    Shape:  n embeddings of d dimensions; rows are selected by a slice or an array of row numbers
    Empty:  an embedding of zeros has no direction; its similarity to everything is 0
    """

    def __init__(
        self, parts: tuple["_Part", ...], inverse_norms: Tensor, kept: Units | None = None, rows: Integers | None = None
    ) -> None:
        self.inverse_norms = inverse_norms
        self._parts = parts
        self._kept = kept
        self._rows = rows

    def __len__(self) -> int:
        return len(self.inverse_norms)

    @property
    def width(self) -> int:
        """Number of dimensions."""
        return self._parts[0].width

    @property
    def bytes(self) -> int:
        """Memory held beyond the embeddings."""
        return 0 if self._kept is None else self._kept.bytes

    def integers(self, rows: RowsOf = slice(None)) -> Tensor:
        """The unit vectors of some rows times 2^26, integers in float64."""
        if self._kept is not None:
            return self._kept.take(self._inner(rows)).integers()
        numbers = self._numbers(rows)
        integers = torch.empty((len(numbers), self.width), dtype=torch.float64)
        for start, block in self._blocks(numbers):
            integers[start : start + len(block)] = _integer_units(block)
        return integers

    def float32(self, rows: RowsOf = slice(None)) -> Tensor:
        """The unit vectors of some rows in float32."""
        return self.units(rows).float32

    def units(self, rows: RowsOf = slice(None)) -> Units:
        """The unit vectors of some rows in float32 with their remainders; read-only."""
        if self._kept is not None:
            return self._kept.take(self._inner(rows))
        numbers = self._numbers(rows)
        writer = _Writer(len(numbers), self.width)
        for start, block in self._blocks(numbers):
            writer.write(start, block)
        return writer.units()

    def take(self, rows: Integers) -> "Directions":
        """The directions of some rows, in that order, computed when asked for."""
        if np.array_equal(rows, np.arange(len(self))):
            return self  # slices of it need no copies
        inner = rows if self._rows is None else self._rows[rows]
        return Directions(self._parts, self.inverse_norms[torch.from_numpy(rows)], self._kept, inner)

    def _inner(self, rows: RowsOf) -> RowsOf:
        return rows if self._rows is None else self._rows[rows]

    def _numbers(self, rows: RowsOf) -> Integers:
        """Row numbers in the tables."""
        inner = self._inner(rows)
        return np.arange(*inner.indices(sum(part.count for part in self._parts))) if isinstance(inner, slice) else inner

    def _blocks(self, numbers: Integers) -> Iterator[tuple[int, Tensor]]:
        """The embeddings of some row numbers block by block, each with the position of its first row."""
        step = max(1, _NUMBERS_AT_ONCE // self.width)
        for start in range(0, len(numbers), step):
            yield start, self._read(numbers[start : start + step])

    def _read(self, numbers: Integers) -> Tensor:
        if len(self._parts) == 1:
            return self._parts[0].read(numbers)
        block = torch.empty((len(numbers), self.width), dtype=torch.float64)
        first = 0
        for part in self._parts:
            inside = np.flatnonzero((numbers >= first) & (numbers < first + part.count))
            if len(inside):
                block[torch.from_numpy(inside)] = part.read(numbers[inside] - first)
            first += part.count
        return block


def read_directions(*embeddings: Tensor | NDArray[np.number], memory: float = 500) -> Directions:
    """The directions of one or several tables of embeddings, concatenated; lengths of embeddings do not matter.

    float32 unit vectors are kept if they take at most half of ``memory`` (in MB).

    Raises: BatchError for anything but tables of finite numbers
    """
    parts = tuple(_Part(table) for table in embeddings)
    widths = sorted({part.width for part in parts})
    if len(widths) > 1:
        raise BatchError(
            "queries and gallery must have embeddings of the same width", got=" and ".join(map(str, widths))
        )
    count, width = sum(part.count for part in parts), widths[0]
    norms = torch.empty(count, dtype=torch.float64)
    writer = _Writer(count, width) if 4 * count * width <= memory * 1e6 / 2 else None
    stored = Directions(parts, norms)

    # One pass over all rows: they are checked, their lengths computed, and the unit vectors kept if they fit.
    def read(first: int, last: int) -> None:
        for offset, block in stored._blocks(np.arange(first, last)):
            rows = slice(first + offset, first + offset + len(block))
            norms[rows] = _norms(_integer_units(block)) if writer is None else writer.write(rows.start, block)

    with run_in_threads() if _is_large(count * width) else nullcontext(run_serially) as run:
        run(read, count)
    inverse_norms = torch.where(norms > 0, 1 / norms, torch.zeros_like(norms))
    return Directions(parts, inverse_norms, writer.units() if writer is not None else None)


def _is_large(numbers: int) -> bool:
    """Whether compiled loops and threads save more time than they take to start."""
    return IS_COMPILED and numbers >= _MANY_NUMBERS


def _norms(integers: Tensor) -> Tensor:
    # A sum of integers below 2^53 is exact.
    return (integers * integers).sum(dim=1).sqrt_()


class _Part:
    """One table of embeddings, read block by block."""

    def __init__(self, embeddings: Tensor | NDArray[np.number]) -> None:
        self.source = embeddings.detach() if isinstance(embeddings, Tensor) else np.asanyarray(embeddings)
        if self.source.ndim != 2 or self.source.shape[1] == 0:
            raise BatchError("embeddings must have the shape (images, dimensions)", got=tuple(self.source.shape))
        if isinstance(self.source, Tensor):
            is_real = not self.source.is_complex() and self.source.dtype != torch.bool
        else:
            is_real = self.source.dtype.kind in "fiu"
        if not is_real:
            raise BatchError("embeddings must be a table of real numbers", got=str(self.source.dtype))
        self.count, self.width = map(int, self.source.shape)
        self._mapping = None if isinstance(self.source, Tensor) else _mapping_of(self.source)

    def read(self, rows: Integers) -> Tensor:
        """A copy of some rows in float64.

        Raises: BatchError for a value that is not finite
        """
        if isinstance(self.source, Tensor):
            index = torch.from_numpy(rows).to(self.source.device)
            block = self.source[index].to("cpu", torch.float64)
        else:
            block = torch.from_numpy(np.asarray(self.source[rows], dtype=np.float64))
            if self._mapping is not None:
                # Pages that were read count as memory of this process until they are released.
                self._mapping.madvise(mmap.MADV_DONTNEED)
        # A sum is finite unless a term is not, or the terms are huge: only then is every value checked.
        if not torch.isfinite(block.sum()):
            finite = torch.isfinite(block).all(dim=1)
            if not finite.all():
                row = rows[int((~finite).nonzero()[0])]
                raise BatchError(
                    f"embedding {row} holds a value that is not finite", hint="Remove rows with NaN or inf."
                )
        return block


def _mapping_of(array: NDArray[np.number]) -> mmap.mmap | None:
    """The file mapping behind an array, if its pages can be released without losing changes."""
    base: object = array
    while isinstance(base, np.ndarray):
        # Pages of a copy-on-write mapping may hold changes that exist nowhere else.
        if isinstance(base, np.memmap) and base.mode == "c":
            return None
        base = base.base
    return base if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") else None


class _Writer:
    """Collects unit vectors block by block, as float32 and remainders."""

    def __init__(self, count: int, width: int) -> None:
        self._float32 = torch.empty((count, width), dtype=torch.float32)
        self._remainder_index = np.full(count, -1, dtype=np.int32)
        self._remainders = [np.empty((0, width), dtype=np.int8)]
        self._lock = Lock()
        self._is_large = _is_large(count * width)

    def write(self, start: int, rows: Tensor) -> Tensor:
        """Store the unit vectors of some rows and return their lengths; overwrites the rows."""
        target = self._float32[start : start + len(rows)]
        if self._is_large:
            from unseen.evaluation.exact.kernels.rounding import round_to_units

            norms = torch.empty(len(rows), dtype=torch.float64)
            largest = round_to_units(rows.numpy(), target.numpy(), norms.numpy(), SCALE)
        else:
            norms = _norms(_integer_units(rows))
            target.copy_(rows / SCALE)
            largest = float(rows.abs().max())
        if largest > 2**24:
            self._write_remainders(start, rows, target)
        return norms

    def _write_remainders(self, start: int, integers: Tensor, float32: Tensor) -> None:
        rows = torch.nonzero(integers.abs().amax(dim=1) > 2**24).flatten()
        remainders = (integers[rows] - float32[rows].to(torch.float64) * SCALE).to(torch.int8).numpy()
        with self._lock:
            first = sum(map(len, self._remainders))
            self._remainder_index[start + rows.numpy()] = np.arange(first, first + len(rows), dtype=np.int32)
            self._remainders.append(remainders)

    def units(self) -> Units:
        return Units(self._float32, self._remainder_index, np.concatenate(self._remainders))


def _integer_units(rows: Tensor) -> Tensor:
    """Round rows to unit vectors times 2^26, in place; the result of a row depends on that row alone, bit for bit."""
    # Divided by the largest coordinate first, so that squares neither overflow nor vanish.
    largest = rows.abs().amax(dim=1, keepdim=True)
    rows.div_(torch.where(largest > 0, largest, torch.ones_like(largest)))
    squares = rows * rows
    # Pairwise sums in a fixed order: a library's sum may use another order on another machine.
    while squares.shape[1] > 1:
        half = (squares.shape[1] + 1) // 2
        squares[:, : squares.shape[1] - half] += squares[:, half:]
        squares = squares[:, :half]
    norms = squares.sqrt()
    # Adding 0 turns -0.0 into 0.0, so that equal directions have equal bytes.
    return rows.div_(torch.where(norms > 0, norms, torch.ones_like(norms))).mul_(SCALE).round_().add_(0.0)
