"""Samples-per-class as in the code of Roth et al. and Qi et al."""

import numpy as np
import pytest

from unseen.core.errors import ConfigError, DataError
from unseen.samplers import BatchPosition, SamplesPerClass

LABELS = np.repeat(np.arange(10), [7, 12, 30, 5, 9, 8, 40, 2, 11, 10])


def drawn_with(draw, batch_size=12, per_class=3, labels=LABELS, seed=0):
    return SamplesPerClass(batch_size=batch_size, per_class=per_class, draw=draw).batches(labels, seed)


def test_the_reference_draws_runs_of_one_class_and_repeats_classes_and_images():
    drawn = drawn_with("reference")
    assert drawn.batches_per_epoch == len(LABELS) // 12
    batches = np.stack([drawn.batch(BatchPosition(0, number)) for number in range(2000)])
    classes = LABELS[batches].reshape(2000, 4, 3)
    assert (classes == classes[:, :, :1]).all()
    assert any(len(np.unique(batch)) < 12 for batch in batches)
    # Four of ten classes drawn with replacement are distinct with probability 0.504.
    distinct = np.mean([len(np.unique(row[:, 0])) == 4 for row in classes])
    assert abs(distinct - 0.504) < 4 * np.sqrt(0.25 / 2000)
    counts = np.bincount(classes[:, :, 0].ravel(), minlength=10)
    assert abs(counts - 800).max() < 4 * np.sqrt(8000 * 0.09)
    images = np.bincount(batches[LABELS[batches] == 3] - np.flatnonzero(LABELS == 3)[0], minlength=5)
    assert abs(images / images.sum() - 0.2).max() < 4 * np.sqrt(0.16 / images.sum())


def test_the_stream_shows_every_class_once_an_epoch_and_drops_what_fills_no_batch():
    drawn = drawn_with("stream", batch_size=8, per_class=2)
    assert drawn.batches_per_epoch == 2
    for epoch in range(50):
        shown = np.concatenate([drawn.batch(BatchPosition(epoch, number)) for number in range(2)])
        classes, counts = np.unique(LABELS[shown], return_counts=True)
        assert len(classes) == 8
        assert (counts == 2).all()
        assert len(np.unique(shown)) == 16
    short = drawn_with("stream", batch_size=30, per_class=3).batch(BatchPosition(0, 0))
    assert len(np.unique(short[LABELS[short] == 7])) == 2  # a class of two images repeats one of them
    assert len(np.unique(short)) == 29


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ConfigError, match="10 classes of 3 images do not fill a batch of 60.*draw=dealt"):
        drawn_with("stream", batch_size=60)
    with pytest.raises(ConfigError, match="draw must be one of 'dealt', 'reference', 'stream'; got 'random'"):
        drawn_with("random")
    for draw in ("reference", "stream"):
        with pytest.raises(DataError, match="no image"):
            drawn_with(draw, labels=np.array([], dtype=np.int64))
