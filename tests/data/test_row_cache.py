"""Caches: the rows are those that were computed, whatever happened to the files in between."""

import os

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.core.folders import cache_folder
from unseen.data.item_readers import FeatureArray
from unseen.data.row_cache import BLOCK, CachedRows, RowCache, cached_rows

SHAPE = (3 * BLOCK + 5, 2, 3)
ROWS = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)


class Counting:
    """Gives rows and remembers which blocks it was asked for."""

    def __init__(self, rows=ROWS) -> None:
        self.rows = rows
        self.asked: list[int] = []

    def __call__(self, blocks):
        for block in blocks:
            self.asked.append(block.start // BLOCK)
            yield self.rows[block.start : block.stop]


def rows_of(folder, compute, key=None, *, dtype="float32", needed=None, quiet=True):
    cache = RowCache(folder, key or {"a": 1}, SHAPE, dtype, "rows")
    return cached_rows(cache, compute, needed=needed, quiet=quiet)


def place_of(folder):
    return next(path for path in folder.iterdir())


def test_rows_are_computed_once_and_found_again(tmp_path):
    first, second = Counting(), Counting()
    assert np.array_equal(rows_of(tmp_path, first), ROWS)
    found = rows_of(tmp_path, second)
    assert np.array_equal(found, ROWS)
    assert isinstance(found, np.memmap)
    assert not found.flags.writeable
    assert (first.asked, second.asked) == ([0, 1, 2, 3], [])


def test_another_key_is_another_cache(tmp_path):
    rows_of(tmp_path, Counting(), {"a": 1})
    second = Counting(ROWS + 1)
    assert np.array_equal(rows_of(tmp_path, second, {"a": 2}), ROWS + 1)
    assert second.asked == [0, 1, 2, 3]


def test_half_precision_takes_half_the_room_and_refuses_what_it_cannot_hold(tmp_path):
    assert np.array_equal(rows_of(tmp_path, Counting(), dtype="float16"), ROWS.astype(np.float16))
    with pytest.raises(DataError, match="rows 64 to 127 are not finite in float16"):
        large = ROWS.copy()
        large[BLOCK + 1] = 1e6
        rows_of(tmp_path, Counting(large), {"a": 3}, dtype="float16")


class Stop(Exception):
    pass


def test_an_interrupted_cache_goes_on_where_it_was(tmp_path):
    def interrupted(blocks):
        for number, rows in enumerate(Counting()(blocks)):
            if number == 2:
                raise Stop
            yield rows

    with pytest.raises(Stop):
        rows_of(tmp_path, interrupted)
    rest = Counting()
    assert np.array_equal(rows_of(tmp_path, rest), ROWS)
    assert rest.asked == [2, 3]


@pytest.mark.parametrize("place", [0, BLOCK * 6 * 4 + 3, -1])
def test_a_flipped_bit_costs_its_block_and_no_wrong_row_is_given(tmp_path, capsys, place):
    rows_of(tmp_path, Counting())
    file = place_of(tmp_path) / "rows.npy"
    content = bytearray(file.read_bytes())
    start = len(content) - ROWS.nbytes
    content[start + place if place >= 0 else place] ^= 1
    file.write_bytes(content)
    again = Counting()
    assert np.array_equal(rows_of(tmp_path, again, quiet=False), ROWS)
    assert len(again.asked) == 1
    assert "1 of 4 blocks of the cache" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["cut rows", "no rows", "empty rows", "no sums", "cut sums", "noise sums", "no key"])
def test_damaged_files_are_made_again(tmp_path, damage):
    rows_of(tmp_path, Counting())
    what, name = damage.split(" ")
    file = place_of(tmp_path) / {"rows": "rows.npy", "sums": "sums.txt", "key": "key.json"}[name]
    content = file.read_bytes()
    if what == "no":
        file.unlink()
    else:
        file.write_bytes({"cut": content[:-30], "empty": b"", "noise": os.urandom(200)}[what])
    again = Counting()
    assert np.array_equal(rows_of(tmp_path, again), ROWS)
    assert again.asked
    assert np.array_equal(rows_of(tmp_path, Counting()), ROWS)


def test_a_folder_with_another_key_inside_is_not_used(tmp_path, capsys):
    rows_of(tmp_path, Counting())
    (place_of(tmp_path) / "key.json").write_text('{"a": 2}')
    again = Counting(ROWS + 1)
    assert np.array_equal(rows_of(tmp_path, again, quiet=False), ROWS + 1)
    assert again.asked == [0, 1, 2, 3]
    assert "has another key or is damaged; it is recomputed" in capsys.readouterr().err


def test_rows_in_use_stay_what_they_were_when_the_cache_is_made_again(tmp_path):
    found = rows_of(tmp_path, Counting())
    (place_of(tmp_path) / "key.json").write_text("{}")
    rows_of(tmp_path, Counting(ROWS + 1))
    assert np.array_equal(found, ROWS)


def test_the_size_is_said_before_anything_is_written(tmp_path, capsys):
    def compute(blocks):
        said.append(capsys.readouterr().err)
        yield from Counting()(blocks)

    said: list[str] = []
    rows_of(tmp_path, compute, quiet=False)
    assert "caching rows (197 x 2 x 3 in float32: 0.0 MB) in" in said[0]


def test_a_disk_without_room_is_said_before_anything_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.data.row_cache.shutil.disk_usage", lambda path: _Free())
    compute = Counting()
    with pytest.raises(DataError, match="needs 0.0 MB and the disk of .* has 0.0 MB. Set --cache"):
        rows_of(tmp_path, compute)
    assert compute.asked == []


class _Free:
    free = 7


def test_the_folder_of_caches_is_the_users_unless_the_environment_says_otherwise(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder().is_relative_to(tmp_path / "home")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine" / "unseen"


def test_the_key_of_an_item_selects_the_view_and_evaluation_sees_the_plain_one():
    plain, view = np.arange(6.0)[:, None], 10 + np.arange(6.0)[:, None]
    reader = CachedRows(
        FeatureArray(np.zeros((6, 1))), plain, np.array([0, 2, 3, 5]), views=[view], augmented=np.array([2, 5])
    )
    asked = np.array([2, 2, 5, 5, 3])
    assert reader.rows(asked, [None, 1, 2, 3, None]).ravel().tolist() == [2, 12, 5, 15, 3]
    for item, key in ((1, None), (3, 1)):
        with pytest.raises(AssertionError, match="not in the cache"):
            reader.rows(np.array([item]), [key])


def test_only_blocks_with_a_row_that_is_needed_are_computed_and_others_when_they_are_needed(tmp_path):
    first, second = Counting(), Counting()
    last = np.array([SHAPE[0] - 1, BLOCK])
    assert np.array_equal(rows_of(tmp_path, first, needed=last)[last], ROWS[last])
    assert np.array_equal(rows_of(tmp_path, second), ROWS)
    assert (first.asked, second.asked) == ([1, 3], [0, 2])
