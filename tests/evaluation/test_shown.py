"""What runs keep for reports: round trip, refusals."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from synthetic_content import make_shown

from unseen.core.errors import DataError
from unseen.evaluation.shown import load_shown, save_shown


@pytest.fixture
def shown():
    return make_shown("scripts", noise=1.0, fonts=2, queries=3, neighbours=4)


@pytest.mark.parametrize("thumbnails", [True, False])
def test_what_is_saved_is_loaded(shown, tmp_path, thumbnails):
    if not thumbnails:
        shown = replace(shown, map_thumbnails=None, query_thumbnails=None, neighbour_thumbnails=None)
    save_shown(tmp_path / "shown.npz", shown)
    loaded = load_shown(tmp_path / "shown.npz")
    for entry in fields(shown):
        before, after = getattr(shown, entry.name), getattr(loaded, entry.name)
        assert (before is None and after is None) or np.array_equal(before, after)


def test_the_same_arrays_give_the_same_bytes_and_names_need_no_pickle(shown, tmp_path):
    named = replace(shown, map_classes=shown.map_classes.astype(object))
    save_shown(tmp_path / "a.npz", named)
    save_shown(tmp_path / "b.npz", named)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert load_shown(tmp_path / "a.npz").map_classes.dtype.kind == "U"


def test_files_that_are_not_ours_are_refused(shown, tmp_path):
    path = tmp_path / "shown.npz"
    with pytest.raises(DataError, match="no file"):
        load_shown(path)
    for content in (b"", b"text", pickle.dumps({"a": 1})):
        path.write_bytes(content)
        with pytest.raises(DataError, match="does not hold what a report draws"):
            load_shown(path)
    np.savez(path, map_labels=np.array([object()], dtype=object))
    with pytest.raises(DataError):
        load_shown(path)
    np.savez(path, map_labels=np.arange(3))
    with pytest.raises(DataError):
        load_shown(path)
    save_shown(path, shown)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError):
        load_shown(path)


@pytest.mark.parametrize(
    "change",
    [
        {"map_labels": np.arange(3)},
        {"map_embeddings": np.zeros(5)},
        {"map_groups": np.array(["a"])},
        {"query_classes": np.array(["a"])},
        {"neighbour_right": np.zeros((3, 9), dtype=bool)},
        {"map_thumbnails": np.zeros((1, 4, 4), dtype=np.uint8)},
        {"query_thumbnails": np.zeros((3, 4, 4, 2), dtype=np.uint8)},
        {"query_thumbnails": np.zeros((3, 4, 4), dtype=np.float32)},
        {"neighbour_thumbnails": np.zeros((3, 4, 4), dtype=np.uint8)},
    ],
)
def test_arrays_that_disagree_are_refused(shown, change):
    with pytest.raises(DataError, match="does not fit"):
        replace(shown, **change)
