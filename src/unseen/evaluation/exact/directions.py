"""Directions of embeddings in whole numbers, so that their inner products are computed without any rounding.

A rounded matrix product gives other last bits for another block size, thread count or processor, and two images of one
embedding then rank apart by accident. Here each unit vector is rounded once, coordinate by coordinate, to multiples of
2^-26. Products are then multiples of 2^-52, and no partial sum exceeds the product of the two norms, so float64 holds
every one of them exactly: the inner product is the same number in any order of summation.

The rounding turns a direction by about 1e-7 (512 dimensions), as much as storing the embedding in float32 does.

Embeddings stay where they are, also on a disk; directions are computed for the rows that are asked for. float32 unit
vectors of all rows are kept if they fit the memory given: they are the whole numbers but for a small rest.
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
from unseen.evaluation.exact.compiled import IS_COMPILED
from unseen.evaluation.exact.threads import at_once, workers

SCALE = 2.0**26
# A block of this many numbers stays in the processor's cache from one step of its reading to the next.
_NUMBERS_AT_ONCE = 2**17
# Fewer numbers are read sooner than the compiled loops are loaded.
_MANY_NUMBERS = 2**20

RowsOf: TypeAlias = slice | NDArray[np.int64]


class Units(NamedTuple):
    """Unit vectors in float32, and what float32 rounded away.

    A coordinate below 1/4 has at most 24 binary digits, which float32 holds; only larger ones, at most 16 in a row, can
    have a rest. ``whole = single * 2^26 + rest[rest_of[row]]``, the last term only where ``rest_of[row] >= 0``.

    Shape:  n rows of d dimensions -> ``single`` (n, d), ``rest_of`` (n); ``rest`` (rows with a rest, d)
    """

    single: Tensor
    rest_of: NDArray[np.int32]
    rest: NDArray[np.int8]

    def whole(self) -> Tensor:
        """The whole numbers, in float64."""
        whole = self.single.to(torch.float64).mul_(SCALE)
        rows = np.flatnonzero(self.rest_of >= 0)
        if len(rows):
            whole[torch.from_numpy(rows)] += torch.from_numpy(self.rest[self.rest_of[rows]])
        return whole

    def take(self, rows: RowsOf) -> "Units":
        """Some of the rows; a slice copies nothing."""
        index = rows if isinstance(rows, slice) else torch.from_numpy(rows)
        return Units(self.single[index], self.rest_of[rows], self.rest)

    @property
    def bytes(self) -> int:
        """Memory of all three."""
        return 4 * self.single.numel() + self.rest_of.nbytes + self.rest.nbytes


class Directions:
    """Unit vectors times 2^26, rounded to whole numbers, and the reciprocals of their lengths.

    Shape:  n embeddings of d dimensions; rows are asked for by a slice or an array of row numbers
    Empty:  an embedding of zeros has no direction; its similarity to everything is 0
    """

    def __init__(
        self,
        parts: tuple["_Part", ...],
        inverse_norms: Tensor,
        kept: Units | None = None,
        rows: NDArray[np.int64] | None = None,
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

    def whole(self, rows: RowsOf = slice(None)) -> Tensor:
        """The unit vectors of some rows times 2^26, whole numbers in float64."""
        index = self._inner(rows)
        if self._kept is not None:
            return self._kept.take(index).whole()
        whole = torch.empty((self._count(index), self.width), dtype=torch.float64)
        for start, block in self._blocks(index):
            whole[start : start + len(block)] = _whole_units(block)
        return whole

    def single(self, rows: RowsOf = slice(None)) -> Tensor:
        """The unit vectors of some rows in float32."""
        return self.units(rows).single

    def units(self, rows: RowsOf = slice(None)) -> Units:
        """The unit vectors of some rows in float32, with their rests; not to be written to."""
        index = self._inner(rows)
        if self._kept is not None:
            return self._kept.take(index)
        writer = _Writer(self._count(index), self.width)
        for start, block in self._blocks(index):
            writer.write(start, block)
        return writer.units()

    def take(self, rows: NDArray[np.int64]) -> "Directions":
        """The directions of some rows, in that order, still computed when asked for."""
        inner = rows if self._rows is None else self._rows[rows]
        return Directions(self._parts, self.inverse_norms[torch.from_numpy(rows)], self._kept, inner)

    @property
    def _stored(self) -> int:
        return sum(part.count for part in self._parts)

    def _inner(self, rows: RowsOf) -> RowsOf:
        return rows if self._rows is None else self._rows[rows]

    def _count(self, rows: RowsOf) -> int:
        return len(range(*rows.indices(self._stored))) if isinstance(rows, slice) else len(rows)

    def _blocks(self, rows: RowsOf) -> Iterator[tuple[int, Tensor]]:
        """The rows as they are stored, block by block, each with its place among the rows asked for."""
        step = max(1, _NUMBERS_AT_ONCE // self.width)
        if isinstance(rows, slice):
            first, last, stride = rows.indices(self._stored)
            if stride == 1:
                for start in range(first, last, step):
                    yield start - first, self._read(slice(start, min(start + step, last)))
                return
            rows = np.arange(first, last, stride)
        for start in range(0, len(rows), step):
            yield start, self._read(rows[start : start + step])

    def _read(self, rows: RowsOf) -> Tensor:
        if isinstance(rows, slice):
            start = 0
            for part in self._parts:
                if start <= rows.start and rows.stop <= start + part.count:
                    return part.read(slice(rows.start - start, rows.stop - start))
                start += part.count
            rows = np.arange(rows.start, rows.stop)
        if len(self._parts) == 1:
            return self._parts[0].read(rows)
        found = torch.empty((len(rows), self.width), dtype=torch.float64)
        start = 0
        for part in self._parts:
            inside = np.flatnonzero((rows >= start) & (rows < start + part.count))
            if len(inside):
                found[torch.from_numpy(inside)] = part.read(rows[inside] - start)
            start += part.count
        return found


def read_directions(*embeddings: Tensor | NDArray[np.floating], memory: float = 500) -> Directions:
    """The directions of a table of embeddings, whose lengths do not matter; further tables stand behind the first.

    Unit vectors are kept if they take at most half of ``memory`` (in MB).

    Raises: BatchError for what is no table of finite numbers
    """
    parts = tuple(_Part(table) for table in embeddings)
    widths = sorted({part.width for part in parts})
    if len(widths) > 1:
        raise BatchError(
            "queries and gallery must have embeddings of one width", got=" and ".join(f"{width}" for width in widths)
        )
    count, width = sum(part.count for part in parts), widths[0]
    norms = torch.empty(count, dtype=torch.float64)
    writer = _Writer(count, width) if 4 * count * width <= memory * 1e6 / 2 else None
    stored = Directions(parts, norms)

    # One pass over everything: checked, measured, and kept if it may be.
    def read(part: tuple[int, int]) -> int:
        for start, block in stored._blocks(slice(*part)):
            place = slice(part[0] + start, part[0] + start + len(block))
            norms[place] = _norms(_whole_units(block)) if writer is None else writer.write(place.start, block)
        return 0

    with workers() if _is_long(count * width) else nullcontext(at_once) as run:
        run(read, count)
    inverse_norms = torch.where(norms > 0, 1 / norms, torch.zeros_like(norms))
    return Directions(parts, inverse_norms, writer.units() if writer is not None else None)


def _is_long(numbers: int) -> bool:
    """Whether loading the compiled loops and starting threads takes less time than they save."""
    return IS_COMPILED and numbers >= _MANY_NUMBERS


def _norms(whole: Tensor) -> Tensor:
    # A sum of whole numbers below 2^53 is exact.
    return (whole * whole).sum(dim=1).sqrt_()


class _Part:
    """One table as it was given, read block by block."""

    def __init__(self, embeddings: Tensor | NDArray[np.floating]) -> None:
        self.source = embeddings.detach() if isinstance(embeddings, Tensor) else np.asanyarray(embeddings)
        if self.source.ndim != 2 or self.source.shape[1] == 0:
            raise BatchError("embeddings must have the shape (images, dimensions)", got=tuple(self.source.shape))
        if isinstance(self.source, Tensor):
            is_real = not self.source.is_complex() and self.source.dtype != torch.bool
        else:
            is_real = self.source.dtype.kind in "fiu"
        if not is_real:
            raise BatchError("embeddings must be a table of real numbers", got=str(self.source.dtype))
        self.count, self.width = self.source.shape
        self._mapping = None if isinstance(self.source, Tensor) else _mapping_of(self.source)

    def read(self, rows: RowsOf) -> Tensor:
        """Some rows in float64, in memory of their own.

        Raises: BatchError for a value that is not finite
        """
        if isinstance(self.source, Tensor):
            index = rows if isinstance(rows, slice) else torch.from_numpy(rows).to(self.source.device)
            block = self.source[index].to("cpu", torch.float64, copy=True)
        else:
            block = torch.from_numpy(np.array(self.source[rows], dtype=np.float64))
            if self._mapping is not None:
                # Pages that were read stay counted as ours until they are given back.
                self._mapping.madvise(mmap.MADV_DONTNEED)
        # A sum is finite unless a term is not, or the terms are huge: only then is each looked at.
        if not torch.isfinite(block.sum()):
            finite = torch.isfinite(block).all(dim=1)
            if not finite.all():
                place = int((~finite).nonzero()[0])
                row = rows.start + place if isinstance(rows, slice) else int(rows[place])
                raise BatchError(f"embedding {row} holds a value that is not finite", hint="Use no NaN and no inf.")
        return block


def _mapping_of(array: NDArray[np.floating]) -> mmap.mmap | None:
    """The file mapping behind an array, if its pages can be given back without losing anything."""
    base: object = array
    while isinstance(base, np.ndarray):
        # Pages of a copy-on-write mapping may hold changes that are nowhere else.
        if isinstance(base, np.memmap) and base.mode == "c":
            return None
        base = base.base
    return base if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") else None


class _Writer:
    """Collects unit vectors, block by block, as float32 and rests."""

    def __init__(self, count: int, width: int) -> None:
        self._single = torch.empty((count, width), dtype=torch.float32)
        self._rest_of = np.full(count, -1, dtype=np.int32)
        self._rests = [np.empty((0, width), dtype=np.int8)]
        self._found = 0
        self._adding = Lock()
        self._is_long = _is_long(count * width)

    def write(self, start: int, rows: Tensor) -> Tensor:
        """Write the unit vectors of some rows, which are overwritten; gives their lengths."""
        target = self._single[start : start + len(rows)]
        if self._is_long:
            from unseen.evaluation.exact.unit_kernels import round_to_units

            norms = torch.empty(len(rows), dtype=torch.float64)
            largest = round_to_units(rows.numpy(), target.numpy(), norms.numpy(), SCALE)
        else:
            norms = _norms(_whole_units(rows))
            target.copy_(rows / SCALE)
            largest = float(rows.abs().max())
        if largest > 2**24:
            self._write_rests(start, rows, target)
        return norms

    def _write_rests(self, start: int, whole: Tensor, single: Tensor) -> None:
        rows = torch.nonzero(whole.abs().amax(dim=1) > 2**24).flatten()
        rest = (whole[rows] - single[rows].to(torch.float64) * SCALE).to(torch.int8).numpy()
        with self._adding:
            self._rest_of[start + rows.numpy()] = np.arange(self._found, self._found + len(rows), dtype=np.int32)
            self._rests.append(rest)
            self._found += len(rows)

    def units(self) -> Units:
        return Units(self._single, self._rest_of, np.concatenate(self._rests))


def _whole_units(rows: Tensor) -> Tensor:
    """Unit vectors times 2^26 in whole numbers, in place; a row's result depends on that row alone, to the last bit."""
    # The largest coordinate goes first, so that squares neither overflow nor vanish.
    largest = rows.abs().amax(dim=1, keepdim=True)
    rows.div_(torch.where(largest > 0, largest, torch.ones_like(largest)))
    squares = rows * rows
    # Halves are added to halves: unlike a library's sum, this order is the same on every machine.
    while squares.shape[1] > 1:
        half = (squares.shape[1] + 1) // 2
        squares[:, : squares.shape[1] - half] += squares[:, half:]
        squares = squares[:, :half]
    norms = squares.sqrt()
    # Adding 0 turns -0.0 into 0.0: equal directions are then equal bytes.
    return rows.div_(torch.where(norms > 0, norms, torch.ones_like(norms))).mul_(SCALE).round_().add_(0.0)
