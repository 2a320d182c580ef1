"""What runs keep for reports: what is chosen, round trip, refusals."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from tests.helpers.small_runs import image_settings, settings_for, write_features, write_images
from tests.helpers.synthetic_content import make_sample
from tests.helpers.synthetic_failures import make_failures
from unseen.core.errors import DataError
from unseen.evaluation.failures import failures
from unseen.evaluation.report_sample import (
    FAILURES,
    NEIGHBOURS,
    THUMBNAIL,
    load_report_sample,
    sample_for_report,
    save_report_sample,
)
from unseen.runs.recipe import prepare


@pytest.fixture
def shown():
    return make_sample("scripts", noise=1.0, fonts=2, queries=3, neighbours=4)


@pytest.mark.parametrize("thumbnails", [True, False])
def test_what_is_saved_is_loaded(shown, tmp_path, thumbnails):
    if not thumbnails:
        shown = replace(shown, map_thumbnails=None, query_thumbnails=None, neighbour_thumbnails=None)
    save_report_sample(tmp_path / "shown.npz", shown)
    loaded = load_report_sample(tmp_path / "shown.npz")
    for entry in fields(shown):
        before, after = getattr(shown, entry.name), getattr(loaded, entry.name)
        assert (before is None and after is None) or np.array_equal(before, after)


def test_failures_are_saved_and_files_without_them_are_read(shown, tmp_path):
    save_report_sample(tmp_path / "old.npz", shown)
    assert load_report_sample(tmp_path / "old.npz").failures is None
    for kept in (make_failures(), make_failures(thumbnails=None)):
        save_report_sample(tmp_path / "new.npz", replace(shown, failures=kept))
        loaded = load_report_sample(tmp_path / "new.npz").failures
        for entry in fields(kept):
            before, after = getattr(kept, entry.name), getattr(loaded, entry.name)
            assert (before is None and after is None) or np.array_equal(before, after)


def test_a_file_with_some_of_the_failures_is_refused(shown, tmp_path):
    save_report_sample(tmp_path / "shown.npz", replace(shown, failures=make_failures()))
    with np.load(tmp_path / "shown.npz") as stored:
        arrays = {name: stored[name] for name in stored.files if name != "failure_totals"}
    np.savez(tmp_path / "shown.npz", **arrays)
    with pytest.raises(DataError, match="does not hold a sample for a report"):
        load_report_sample(tmp_path / "shown.npz")


def test_a_run_shows_its_failures_by_name_and_picture(tmp_path):
    prepared = prepare(image_settings(write_images(tmp_path / "images")))
    catalogue, split = prepared.catalogue, prepared.split
    embeddings = np.random.default_rng(0).normal(size=(len(split.test), 3)).astype(np.float32)
    kept = sample_for_report(embeddings, catalogue, split).failures
    assert kept is not None
    labels = catalogue.labels[split.test]
    found = failures(embeddings, labels, count=FAILURES)
    ids = np.array(catalogue.ids)[split.test]
    assert kept.names[kept.worst_items[:, 0]].tolist() == ids[found.worst.query].tolist()
    assert kept.names[kept.worst_items[:, 1]].tolist() == ids[found.worst.positive].tolist()
    assert kept.worst_items.shape[1] == 2 + NEIGHBOURS
    assert (np.diff(kept.worst_similarity[:, 1:]) <= 0).all()
    assert kept.names[kept.confused_items].tolist() == ids[np.stack(found.confused[4:6], axis=1)].tolist()
    assert (kept.confused_queries[:, 0] / kept.confused_queries[:, 1]).tolist() == found.confused.share.tolist()
    assert kept.names[kept.duplicate_items].tolist() == ids[np.stack(found.near_duplicates[:2], axis=1)].tolist()
    assert kept.totals.tolist() == [found.failed_queries, len(labels), found.confused_pairs, found.duplicate_pairs]
    assert [catalogue.class_names[label] for label in kept.labels] == kept.classes.tolist()
    assert kept.thumbnails is not None
    assert kept.thumbnails.shape == (len(kept.names), THUMBNAIL, THUMBNAIL, 3)


def test_a_run_without_a_failure_and_without_pictures_shows_none(tmp_path):
    prepared = prepare(settings_for(write_features(tmp_path / "features.npz")))
    labels = prepared.catalogue.labels[prepared.split.test]
    kept = sample_for_report(np.eye(labels.max() + 1)[labels], prepared.catalogue, prepared.split).failures
    assert kept is not None
    assert kept.totals.tolist() == [0, len(labels), 0, 0]
    assert len(kept.names) == 0
    assert kept.thumbnails is None


def test_the_same_arrays_give_the_same_bytes_and_names_need_no_pickle(shown, tmp_path):
    named = replace(shown, map_classes=shown.map_classes.astype(object))
    save_report_sample(tmp_path / "a.npz", named)
    save_report_sample(tmp_path / "b.npz", named)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert load_report_sample(tmp_path / "a.npz").map_classes.dtype.kind == "U"


def test_files_that_are_not_ours_are_refused(shown, tmp_path):
    path = tmp_path / "shown.npz"
    with pytest.raises(DataError, match="no file"):
        load_report_sample(path)
    for content in (b"", b"text", pickle.dumps({"a": 1})):
        path.write_bytes(content)
        with pytest.raises(DataError, match="does not hold a sample for a report"):
            load_report_sample(path)
    np.savez(path, map_labels=np.array([object()], dtype=object))
    with pytest.raises(DataError):
        load_report_sample(path)
    np.savez(path, map_labels=np.arange(3))
    with pytest.raises(DataError):
        load_report_sample(path)
    save_report_sample(path, shown)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError):
        load_report_sample(path)


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
