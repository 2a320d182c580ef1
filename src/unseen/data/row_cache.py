"""A cache of rows that are expensive to compute: keyed by what made them, filled in blocks, verified before use.

A cache is a folder named after the hash of its key. `rows.npy` holds the rows, `key.json` the key, and `sums.txt` one
line with the SHA-256 of each finished block. A block counts only if its checksum is right, so a killed writer, a power
cut or a damaged disk cost only the blocks they touched.
"""

import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL.Image import Image

from unseen.core.config import Record, hash_of
from unseen.core.console import console, progress_bar
from unseen.core.errors import DataError
from unseen.core.faults import fault
from unseen.core.files import read_json, write_json
from unseen.core.folders import exclusive
from unseen.data.catalogue import ItemReader, Kind

# Rows per block. It is also the batch in which rows are computed, so that they are the same whoever computes them and
# however often the computation is interrupted.
BLOCK = 64
_MEGABYTE = 10**6

ComputeRows = Callable[[Sequence[range]], Iterator[np.ndarray]]


@dataclass(frozen=True)
class RowCache:
    """Rows on disk."""

    folder: Path  # that holds the caches
    key: Record  # everything that determines the rows, as plain values
    shape: tuple[int, ...]  # (rows, ...)
    dtype: str  # NumPy name of the stored type
    description: str  # for messages: "activations at blocks.5"

    @cached_property
    def path(self) -> Path:
        """The folder of this cache."""
        return self.folder / hash_of(self.key)

    @cached_property
    def header(self) -> bytes:
        """The header of rows.npy."""
        buffer = io.BytesIO()
        descriptor = np.lib.format.dtype_to_descr(np.dtype(self.dtype))
        np.lib.format.write_array_header_1_0(buffer, {"descr": descriptor, "fortran_order": False, "shape": self.shape})
        return buffer.getvalue()

    @cached_property
    def row_bytes(self) -> int:
        """The size of one row."""
        return int(np.prod(self.shape[1:])) * np.dtype(self.dtype).itemsize

    def offset(self, block: range) -> int:
        """Return where a block begins in rows.npy."""
        return len(self.header) + block.start * self.row_bytes

    def blocks(self, needed: np.ndarray | None) -> list[range]:
        """Return the blocks that contain the needed rows, all blocks for None."""
        blocks = [range(start, min(start + BLOCK, self.shape[0])) for start in range(0, self.shape[0], BLOCK)]
        return blocks if needed is None else [blocks[number] for number in np.unique(needed // BLOCK)]


def cached_rows(
    cache: RowCache, compute: ComputeRows, *, needed: np.ndarray | None = None, quiet: bool = False
) -> np.ndarray:
    """Return the memory-mapped rows of a cache after computing those that are missing.

    `compute` returns the rows of each requested range, one array per range, in order. `needed` holds the positions of
    the rows to fill in, all if None; blocks without any of them are left out.

    Two processes that need the same rows do not both compute them: the second waits for the first.

    Raises:  `DataError` when the disk is full or rows are not finite
    """
    cache.path.mkdir(parents=True, exist_ok=True)
    blocks = cache.blocks(needed)
    waiting = f"waiting for another process that is caching {cache.description}"
    with exclusive(cache.path / "lock", when_busy=lambda: _report(waiting, quiet)):
        missing = _missing_blocks(cache, blocks, quiet)
        # Rows that were not needed yet are a hole in the file, which uses no disk space.
        os.truncate(cache.path / "rows.npy", len(cache.header) + cache.shape[0] * cache.row_bytes)
        if missing:
            _fill(cache, blocks, missing, compute, quiet)
    rows: np.ndarray = np.load(cache.path / "rows.npy", mmap_mode="r", allow_pickle=False)
    return rows


class CachedRows:
    """Reads items from cached rows: one plain view of every item, and augmented views of some.

    `plain` has one row per item of `origin` without augmentation, filled in at `indices`; each array of `views` has one
    per augmented item, filled in at `augmented`. Evaluation uses the plain view. Training uses all views of one shape,
    so the plain view only if the augmented views have its shape; the item's random key selects one.
    """

    kind: Kind = "features"

    def __init__(
        self,
        origin: ItemReader,
        plain: np.ndarray,
        indices: np.ndarray,
        *,
        views: Sequence[np.ndarray] = (),
        augmented: np.ndarray | None = None,
    ) -> None:
        assert all(len(rows) == len(origin) for rows in (plain, *views)), "a cache has a row for every item"
        self.origin, self.plain, self.views = origin, plain, tuple(views)
        self._is_filled = np.zeros((2, len(origin)), bool)
        self._is_filled[0, indices] = True
        self._is_filled[1, indices[:0] if augmented is None else augmented] = True

    def __len__(self) -> int:
        return len(self.origin)

    def content_hash(self) -> str:
        """Return the hash of the original items; the rows themselves were verified by the cache."""
        return self.origin.content_hash()

    def image(self, index: int) -> Image | None:
        """Return the image behind a row."""
        return self.origin.image(index)

    def rows(self, indices: np.ndarray, keys: Sequence[int | None]) -> np.ndarray:
        """Return the rows of these items: of the view that the key selects, of the plain view for None."""
        first = int(any(rows.shape != self.plain.shape for rows in self.views))
        count = len(self.views) + 1 - first
        view = np.array([0 if key is None else first + key % count for key in keys], np.int64)
        shape = (self.plain, *self.views)[view.max(initial=0)].shape[1:]
        selected = np.empty((len(indices), *shape), self.plain.dtype)
        for number in np.unique(view).tolist():
            rows, is_here = (self.plain, *self.views)[number], view == number
            assert self._is_filled[min(number, 1), indices[is_here]].all(), "an item is not in the cache"
            selected[is_here] = rows[indices[is_here]]
        return selected


def _missing_blocks(cache: RowCache, blocks: list[range], quiet: bool) -> list[range]:
    """Return the blocks that are missing or damaged; a folder with other content is emptied."""
    folder = cache.path
    if not _is_valid(cache):
        if (folder / "key.json").exists():
            _report(f"the cache in {folder} has another key or is damaged; it is recomputed", quiet)
        for name in ("key.json", "sums.txt", "rows.npy"):
            (folder / name).unlink(missing_ok=True)  # a new file: a process that still reads the old one keeps it
        (folder / "rows.npy").write_bytes(cache.header)
        write_json(folder / "key.json", cache.key)
        return blocks
    checksums = _checksums(folder)
    missing = []
    with open(folder / "rows.npy", "rb") as file:
        for block in blocks:
            file.seek(cache.offset(block))
            # Read, not mapped: a truncated file would kill the process that maps it.
            content = file.read(len(block) * cache.row_bytes)
            if checksums.get(block.start) != hashlib.sha256(content).hexdigest():
                missing.append(block)
    damaged = sum(block.start in checksums for block in missing)
    if damaged:
        _report(f"{damaged:,} of {len(blocks):,} blocks of the cache in {folder} are damaged and recomputed", quiet)
    return missing


def _is_valid(cache: RowCache) -> bool:
    try:
        with open(cache.path / "rows.npy", "rb") as file:
            return file.read(len(cache.header)) == cache.header and read_json(cache.path / "key.json") == cache.key
    except (OSError, DataError):
        return False


def _checksums(folder: Path) -> dict[int, str]:
    """Return the checksum of each finished block by its first row; an incomplete line is ignored."""
    try:
        lines = (folder / "sums.txt").read_text(encoding="ascii", errors="replace").split("\n")[:-1]
    except FileNotFoundError:
        return {}
    words = [line.split(" ") for line in lines]
    return {int(pair[0]): pair[1] for pair in words if len(pair) == 2 and pair[0].isdecimal()}


def _fill(cache: RowCache, blocks: list[range], missing: list[range], compute: ComputeRows, quiet: bool) -> None:
    count, lacking = sum(map(len, blocks)), sum(map(len, missing))
    wanted, free = lacking * cache.row_bytes, shutil.disk_usage(cache.path).free
    if free < wanted:
        raise DataError(
            f"the cache of {cache.description} needs {_megabytes(wanted)} and the disk of {cache.path} has "
            f"{_megabytes(free)}",
            hint="Set --cache to a folder on another disk, or use fewer views.",
        )
    size = f"{' x '.join(map(str, cache.shape[1:]))} in {cache.dtype}: {_megabytes(count * cache.row_bytes)}"
    _report(f"caching {cache.description} ({count:,} x {size}) in {cache.path}", quiet)
    with (
        progress_bar(f"caching {cache.description}", count, done=count - lacking, quiet=quiet) as bar,
        open(cache.path / "rows.npy", "r+b") as file,
        open(cache.path / "sums.txt", "a", encoding="ascii") as checksums,
    ):
        if checksums.tell():
            checksums.write("\n")  # ends a line that a killed writer left incomplete
        for block, rows in zip(missing, compute(missing), strict=True):
            with np.errstate(over="ignore"):
                content = np.ascontiguousarray(rows, cache.dtype)
            assert content.nbytes == len(block) * cache.row_bytes, "computed rows have another shape than the cache"
            if not np.isfinite(content).all():
                raise DataError(
                    f"{cache.description}: rows {block.start} to {block.stop - 1} are not finite in {cache.dtype}"
                )
            file.seek(cache.offset(block))
            file.write(content.data)
            file.flush()
            fault("cache.before_sum")
            checksums.write(f"{block.start} {hashlib.sha256(content.data).hexdigest()}\n")
            checksums.flush()
            fault("cache.after_sum")
            bar.advance(len(block))


def _megabytes(size: int) -> str:
    return f"{size / _MEGABYTE:,.0f} MB" if size >= 10 * _MEGABYTE else f"{size / _MEGABYTE:.1f} MB"


def _report(message: str, quiet: bool) -> None:
    if not quiet:
        console().print(message, markup=False, soft_wrap=True)
