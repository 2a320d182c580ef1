"""Positives by compiled loops and by products of matrices: the same similarities to the bit."""

import numpy as np
import pytest

from unseen.evaluation.exact import positives as engine
from unseen.evaluation.exact.inputs import read_table
from unseen.evaluation.exact.positives import find_positives


def table(seed, **rows):
    generator = np.random.default_rng(seed)
    # Width 5: most rows have coordinates that float32 does not hold. Copies, zeros and classes of one row among them.
    embeddings = generator.normal(size=(40, 5))[generator.integers(40, size=70)]
    embeddings[:2] = 0
    return read_table(embeddings, generator.integers(25, size=70), **rows)


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_give_the_same_bits(seed, monkeypatch):
    generator = np.random.default_rng(seed)
    halves = {"queries": generator.permutation(70)[:30], "gallery": generator.permutation(70)[:40]}
    for rows in ({}, halves, {"groups": generator.integers(9, size=70)}, {"groups": np.arange(70) % 7, **halves}):
        expected = find_positives(table(seed, **rows), memory=500)
        with monkeypatch.context() as patch:
            patch.setattr(engine, "_MANY_PAIRS", 1)
            patch.setattr(engine, "_QUERIES_PER_LOOP", 7)
            found = find_positives(table(seed, **rows), memory=500)
        assert found.starts.tolist() == expected.starts.tolist()
        assert found.similarities.tobytes() == expected.similarities.tobytes()
