"""Keys of rows and classes."""

import numpy as np

from unseen.evaluation.exact.directions import read_directions
from unseen.evaluation.exact.row_hashes import class_keys, order_of, row_keys

ROWS = np.random.default_rng(0).normal(size=(40, 5))


def test_equal_directions_have_equal_keys_and_others_do_not():
    rows = np.concatenate([ROWS, 4.0 * ROWS[:3]])
    keys = row_keys(read_directions(rows))
    assert keys.shape == (43, 2)
    assert (keys[40:] == keys[:3]).all()
    assert len(np.unique(keys, axis=0)) == 40


def test_the_order_of_the_rows_does_not_matter():
    shuffled = np.random.default_rng(1).permutation(40)
    keys, other_keys = row_keys(read_directions(ROWS)), row_keys(read_directions(ROWS[shuffled]))
    assert (keys[order_of(keys)] == other_keys[order_of(other_keys)]).all()
    groups = np.arange(40) % 3
    ordered = order_of(keys, groups)
    assert (np.diff(groups[ordered]) >= 0).all()
    assert (keys[ordered] == other_keys[order_of(other_keys, groups[shuffled])]).all()


def test_the_key_of_a_class_depends_on_its_members_alone():
    classes = np.arange(40) % 4
    keys = row_keys(read_directions(ROWS))
    found = class_keys(keys, classes)
    shuffled = np.random.default_rng(1).permutation(40)
    assert (class_keys(keys[shuffled], classes[shuffled]) == found).all()
    renamed = (classes + 1) % 4
    assert (class_keys(keys, renamed) == np.roll(found, 1, axis=0)).all()
    assert len(np.unique(found, axis=0)) == 4
