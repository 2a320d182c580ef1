"""Average precision and its variants against loops, scikit-learn and random orders."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from tests.helpers.ranking_loops import (
    check_collapsed,
    check_on_random_tables,
    clustered,
    divided,
    parametrized,
    precision_sum,
    ranked_at,
)
from unseen.evaluation.exact.inputs import read_table
from unseen.evaluation.exact.ranks import Ranks, rank_positives
from unseen.evaluation.scores.average_precision import AveragePrecision, MAPAt1000, expected_precision_sum

LOOPS = {
    "ap": lambda hits, k: divided(precision_sum(hits, len(hits)), sum(hits)),
    "map@r": lambda hits, k: divided(precision_sum(hits, sum(hits)), sum(hits)),
    "map@c": lambda hits, k: precision_sum(hits, sum(hits) + 1) / (sum(hits) + 1),
    "map@1000": lambda hits, k: precision_sum(hits, 1000) / (sum(hits) + 1),
}


@parametrized(LOOPS)
def test_a_score_equals_its_loop_reference_on_200_random_tables_with_ties(name, loop):
    check_on_random_tables(name, loop)


@parametrized(LOOPS)
def test_a_collapsed_model_scores_at_chance(name, loop):
    check_collapsed(name, loop)


def test_place_1000_counts_and_place_1001_does_not():
    assert MAPAt1000()(ranked_at(1000)) == pytest.approx(1 / 1000 / 2)
    assert MAPAt1000()(ranked_at(1001)) == 0


def test_large_tied_groups_equal_the_mean_over_random_orders():
    # 3 items before, of them 1 positive; then a group of 500 with 20 positives.
    above = np.array([1] + [3] * 20)
    tied = np.array([1] + [500] * 20)
    ranks = Ranks(above, tied, positives=np.array([21]), candidates=np.array([600]))
    generator = np.random.default_rng(0)
    for places in (2, 3, 10, 300, 503, 600):
        drawn = []
        for _ in range(3000):
            hits = np.concatenate([[0, 1, 0], generator.permutation(np.repeat([1, 0], [20, 480])), np.zeros(97)])
            precision = np.cumsum(hits) / np.arange(1, 601)
            drawn.append((precision * hits)[:places].sum())
        error = 4 * np.std(drawn) / np.sqrt(len(drawn)) + 1e-12
        assert expected_precision_sum(ranks, np.array([places])) == pytest.approx(np.mean(drawn), abs=error)


def test_average_precision_equals_scikit_learn_on_rows_without_ties():
    embeddings, labels = clustered(1)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    values = AveragePrecision()(rank_positives(read_table(embeddings, labels)))
    for query in range(len(labels)):
        others = np.arange(len(labels)) != query
        expected = average_precision_score(labels[others] == labels[query], (unit @ unit[query])[others])
        assert values[query] == pytest.approx(expected, abs=1e-12)
