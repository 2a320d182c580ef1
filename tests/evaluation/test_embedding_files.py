"""Embeddings and labels in npy files: mapped, checked, refused in one sentence."""

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.evaluation.embedding_files import read_labels, read_mapped


def test_a_table_is_mapped_not_loaded(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "rows.npy", rows)
    found = read_mapped(tmp_path / "rows.npy")
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, rows)


def test_labels_come_from_an_npy_file_or_a_text(tmp_path):
    np.save(tmp_path / "labels.npy", np.array([5, 5, 7]))
    (tmp_path / "labels.txt").write_text("owl\nowl\nemu\n", encoding="utf-8")
    assert read_labels(tmp_path / "rows.npy", tmp_path / "labels.npy").tolist() == [5, 5, 7]
    assert read_labels(tmp_path / "rows.npy", tmp_path / "labels.txt") == ["owl", "owl", "emu"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not an array", "is not an npy file"),
        (b"", "is not an npy file"),
        (np.ones(3), "does not hold a table of numbers"),
        (np.array([["a", "b"]]), "does not hold a table of numbers"),
        (np.array([[{}]], dtype=object), "is not an npy file"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, content, message):
    path = tmp_path / "rows.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(DataError, match=message):
        read_mapped(path)


def test_labels_that_are_missing_or_broken_are_refused(tmp_path):
    path = tmp_path / "rows.npy"
    with pytest.raises(DataError, match="holds no labels; use --labels"):
        read_labels(path, None)
    with pytest.raises(DataError, match="no file"):
        read_labels(path, tmp_path / "absent.txt")
    with pytest.raises(DataError, match="no file"):
        read_labels(path, tmp_path / "absent.npy")
    np.save(tmp_path / "wide.npy", np.ones((2, 2), dtype=int))
    with pytest.raises(DataError, match="does not hold one label an embedding"):
        read_labels(path, tmp_path / "wide.npy")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="cannot be read as a text"):
        read_labels(path, tmp_path / "bytes.txt")
