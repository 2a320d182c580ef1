"""Caches of rows that are dear to compute: keyed by what made them, filled block by block, verified before use.

A cache is a folder named after its key. `rows.npy` holds the rows, `key.json` what made them, and `sums.txt` a line
with the SHA-256 of each block that is whole. A block counts only if its sum is right, so that a killed writer, a power
cut or a damaged disk cost the blocks they touched and nothing else (PROMISES R19).
"""

import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL.Image import Image

from unseen.core.config import Record, hash_of
from unseen.core.console import console, progress_bar
from unseen.core.errors import DataError
from unseen.core.faults import fault
from unseen.core.files import read_json, write_json
from unseen.core.locks import exclusive
from unseen.data.catalogue import ItemReader, Kind

# Rows of a block. It is also the batch in which rows are computed: they are the same whoever computes them, and
# however often that was interrupted.
BLOCK = 64
_MEGABYTE = 10**6

Compute = Callable[[Sequence[range]], Iterator[np.ndarray]]


def cached_rows(
    folder: Path,
    key: Record,
    *,
    shape: tuple[int, ...],
    dtype: str,
    compute: Compute,
    what: str,
    needed: np.ndarray | None = None,
    quiet: bool = False,
) -> np.ndarray:
    """The rows that `key` describes, memory-mapped: taken from the cache, or computed now as far as they lack.

    ========  =========================================================================================
    key       everything that decides the rows, as plain values
    shape     (rows, ...)
    compute   gives the rows of each of the ranges that it is asked for, one array a range, in order
    what      words for people: "activations at blocks.5"
    needed    the rows that are asked for, all if None; blocks without any of them are left out for now
    ========  =========================================================================================

    Two processes that want the same rows at once do not both compute them: the second waits for the first.

    Raises:  `DataError` when the disk has no room, or when rows are not finite
    """
    place = folder / hash_of(key)
    place.mkdir(parents=True, exist_ok=True)
    blocks = [range(start, min(start + BLOCK, shape[0])) for start in range(0, shape[0], BLOCK)]
    header = _header(shape, dtype)
    row_bytes = int(np.prod(shape[1:])) * np.dtype(dtype).itemsize
    if needed is not None:
        blocks = [blocks[number] for number in np.unique(needed // BLOCK)]
    count = sum(map(len, blocks))

    def say_waiting() -> None:
        _say(f"waiting for another process that is caching {what}", quiet)

    with exclusive(place / "lock", when_busy=say_waiting):
        missing = [blocks[number] for number in _missing(place, key, header, blocks, row_bytes, quiet)]
        # Rows that nobody asked for yet are a hole in the file, which takes no room on the disk.
        os.truncate(place / "rows.npy", len(header) + shape[0] * row_bytes)
        if missing:
            _check_room(place, sum(map(len, missing)) * row_bytes, what)
            size = f"{count:,} x {' x '.join(map(str, shape[1:]))} in {dtype}: {_megabytes(count * row_bytes)}"
            _say(f"caching {what} ({size}) in {place}", quiet)
            done = count - sum(map(len, missing))
            with progress_bar(f"caching {what}", count, done=done, quiet=quiet) as bar:
                for block in _fill(place, len(header), row_bytes, missing, compute(missing), dtype, what):
                    bar.advance(len(block))
    rows: np.ndarray = np.load(place / "rows.npy", mmap_mode="r", allow_pickle=False)
    return rows


class CachedRows:
    """A reader whose items are rows of caches: the plain view of every item, and augmented views of some.

    ==========  ==================================================================================
    origin      the reader whose items were put through a network
    plain       a row for each item, without augmentation; those at `indices` hold something
    views       further rows, each array another augmentation; those at `augmented` hold something
    ==========  ==================================================================================

    Evaluation sees the plain view. Training sees the plain view and the augmented ones alike: the key of a item_key
    decides, so that the draw follows from the seed.
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
        assert all(len(table) == len(origin) for table in (plain, *views)), "a cache has a row for every item"
        self.origin, self.plain, self.views = origin, plain, tuple(views)
        self._holds = np.zeros((2, len(origin)), bool)
        self._holds[0, indices] = True
        self._holds[1, indices[:0] if augmented is None else augmented] = True

    def __len__(self) -> int:
        return len(self.origin)

    def content_hash(self) -> str:
        """The hash of what the rows were made from; the caches verified the rows themselves."""
        return self.origin.content_hash()

    def image(self, index: int) -> Image | None:
        """The picture behind a row."""
        return self.origin.image(index)

    def rows(self, indices: np.ndarray, keys: Sequence[int | None]) -> np.ndarray:
        """The rows of these items; those with a key may be of any view."""
        count = len(self.views) + 1
        view = np.array([0 if key is None else key % count for key in keys], np.int64)
        found = np.empty((len(indices), *self.plain.shape[1:]), self.plain.dtype)
        for number, table in enumerate((self.plain, *self.views)):
            here = view == number
            assert self._holds[min(number, 1), indices[here]].all(), "an item was asked for that is not in the cache"
            found[here] = table[indices[here]]
        return found


def _header(shape: tuple[int, ...], dtype: str) -> bytes:
    buffer = io.BytesIO()
    descriptor = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(buffer, {"descr": descriptor, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def _missing(place: Path, key: Record, header: bytes, blocks: list[range], row_bytes: int, quiet: bool) -> list[int]:
    """The numbers of the blocks that are not there or not right; a folder that holds something else is emptied."""
    if not _is_for(place, key, header):
        if (place / "key.json").exists():
            _say(f"the cache in {place} was made otherwise or is damaged, and is made again", quiet)
        for name in ("key.json", "sums.txt", "rows.npy"):
            (place / name).unlink(missing_ok=True)  # a new file: whoever still reads the old one keeps it
        (place / "rows.npy").write_bytes(header)
        write_json(place / "key.json", key)
        return list(range(len(blocks)))
    sums = _sums(place)
    missing, damaged = [], 0
    with open(place / "rows.npy", "rb") as file:
        for number, block in enumerate(blocks):
            file.seek(len(header) + block.start * row_bytes)
            # Read, not mapped: a file that was cut off would kill the process that maps it.
            if block.start not in sums or _sum_of(file.read(len(block) * row_bytes)) != sums[block.start]:
                missing.append(number)
                damaged += block.start in sums
    if damaged:
        _say(f"{damaged:,} of {len(blocks):,} blocks of the cache in {place} are damaged and are made again", quiet)
    return missing


def _is_for(place: Path, key: Record, header: bytes) -> bool:
    try:
        with open(place / "rows.npy", "rb") as file:
            return file.read(len(header)) == header and read_json(place / "key.json") == key
    except (OSError, DataError):
        return False


def _sums(place: Path) -> dict[int, str]:
    """The sum of each finished block by its first row; a line that was cut off says nothing."""
    try:
        lines = (place / "sums.txt").read_text(encoding="ascii", errors="replace").split("\n")[:-1]
    except FileNotFoundError:
        return {}
    words = [line.split(" ") for line in lines]
    return {int(pair[0]): pair[1] for pair in words if len(pair) == 2 and pair[0].isdecimal()}


def _fill(
    place: Path,
    offset: int,
    row_bytes: int,
    missing: list[range],
    computed: Iterator[np.ndarray],
    dtype: str,
    what: str,
) -> Iterator[range]:
    with open(place / "rows.npy", "r+b") as file, open(place / "sums.txt", "a", encoding="ascii") as sums:
        if sums.tell():
            sums.write("\n")  # ends a line that a killed writer left open
        for block, rows in zip(missing, computed, strict=True):
            with np.errstate(over="ignore"):
                content = np.ascontiguousarray(rows, dtype)
            assert content.nbytes == len(block) * row_bytes, "rows of another shape than the cache's were computed"
            if not np.isfinite(content).all():
                raise DataError(f"{what}: rows {block.start} to {block.stop - 1} are not finite in {dtype}")
            file.seek(offset + block.start * row_bytes)
            file.write(content.data)
            file.flush()
            fault("cache.before_sum")
            sums.write(f"{block.start} {_sum_of(content.data)}\n")
            sums.flush()
            fault("cache.after_sum")
            yield block


def _sum_of(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()


def _check_room(place: Path, wanted: int, what: str) -> None:
    free = shutil.disk_usage(place).free
    if free < wanted:
        raise DataError(
            f"the cache of {what} needs {_megabytes(wanted)} and the disk of {place} has {_megabytes(free)}",
            hint="Use --cache with a folder on another disk, or fewer views.",
        )


def _megabytes(size: int) -> str:
    return f"{size / _MEGABYTE:,.0f} MB" if size >= 10 * _MEGABYTE else f"{size / _MEGABYTE:.1f} MB"


def _say(sentence: str, quiet: bool) -> None:
    if not quiet:
        console().print(sentence, markup=False, soft_wrap=True)
