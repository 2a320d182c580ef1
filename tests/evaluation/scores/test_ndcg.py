"""NDCG against loops and scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from tests.helpers.ranking_loops import check_collapsed, check_on_random_tables, clustered, parametrized, ranked_at
from unseen.evaluation.exact.inputs import read_table
from unseen.evaluation.exact.ranks import rank_positives
from unseen.evaluation.scores.ndcg import NDCG


def gain(hits, places):
    return sum(1 / math.log2(place + 1) for place, hit in enumerate(hits[:places], start=1) if hit)


def normalised_gain(hits, k):
    best = gain(sorted(hits, reverse=True), k or len(hits))
    return gain(hits, k or len(hits)) / best if best else 0.0


LOOPS = {"ndcg": normalised_gain}


@parametrized(LOOPS)
def test_a_score_equals_its_loop_reference_on_200_random_tables_with_ties(name, loop):
    check_on_random_tables(name, loop)


@parametrized(LOOPS)
def test_a_collapsed_model_scores_at_chance(name, loop):
    check_collapsed(name, loop)


def test_normalised_gain_of_a_ranking_computed_by_hand():
    ranks = ranked_at(1, 3, 1500)
    best = 1 + 1 / np.log2(3) + 1 / 2
    assert NDCG()(ranks) == pytest.approx((1 + 1 / 2 + 1 / np.log2(1501)) / best)
    assert NDCG(k=10)(ranks) == pytest.approx((1 + 1 / 2) / best)
    # Two places have room for two positives only.
    assert NDCG(k=2)(ranks) == pytest.approx(1 / (1 + 1 / np.log2(3)))
    assert NDCG(k=5)(ranked_at(1, 2, 3)) == 1


def test_normalised_gain_equals_scikit_learn_on_rows_with_and_without_ties():
    embeddings, labels = clustered(4)
    embeddings[:60] = embeddings[60:120]
    table = read_table(embeddings, labels)
    units = table.directions.integers()
    similarity = (units @ units.T * table.directions.inverse_norms).numpy()
    ranks = rank_positives(table)
    complete, first = NDCG()(ranks), NDCG(k=12)(ranks)
    for query in range(0, len(labels), 3):
        others = np.arange(len(labels)) != query
        is_right, scores = (labels[others] == labels[query])[None], similarity[query][others][None]
        assert complete[query] == pytest.approx(ndcg_score(is_right, scores), abs=1e-12)
        assert first[query] == pytest.approx(ndcg_score(is_right, scores, k=12), abs=1e-12)
