"""Small tables whose pairs are compared by loops."""

import numpy as np

from unseen.evaluation.exact.directions import read_directions
from unseen.evaluation.exact.inputs import Table


def table_of(rows, classes, queries=None, gallery=None):
    every = np.arange(len(rows))
    return Table(
        read_directions(np.asarray(rows, dtype=float)),
        np.asarray(classes, dtype=np.int64),
        every if queries is None else np.asarray(queries),
        every if gallery is None else np.asarray(gallery),
    )


def small_table(number):
    """Random, with copies, with many ties, or collapsed."""
    generator = np.random.default_rng(number)
    count = int(generator.integers(3, 14))
    classes = generator.integers(generator.integers(2, 5), size=count)
    kind = number % 4
    if kind == 0:
        return generator.integers(-1, 2, size=(count, 3)).astype(float), classes
    if kind == 1:
        return generator.normal(size=(4, 3))[generator.integers(4, size=count)], classes
    if kind == 2:
        return generator.normal(size=(count, 4)), classes
    return np.ones((count, 2)), classes


def pairs_of(rows, classes):
    similarity, same = [], []
    for i in range(len(rows)):
        for j in range(i):
            lengths = np.linalg.norm(rows[i]) * np.linalg.norm(rows[j])
            # Cosines of these tables are equal or differ by far more than this.
            similarity.append(round(rows[i] @ rows[j] / lengths, 9) if lengths else 0.0)
            same.append(bool(classes[i] == classes[j]))
    return np.array(similarity) + 0.0, np.array(same)
