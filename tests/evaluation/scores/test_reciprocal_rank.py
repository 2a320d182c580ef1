"""Mean reciprocal rank against loops over all orders of tied items."""

import itertools
import math

import numpy as np
import pytest

from tests.helpers.ranking_loops import check_collapsed, check_on_random_tables, parametrized
from unseen.core.registry import score
from unseen.evaluation import evaluate
from unseen.evaluation.exact.inputs import read_table
from unseen.evaluation.exact.ranks import Ranks, rank_positives
from unseen.evaluation.scores.reciprocal_rank import expected_reciprocal

LOOPS = {"mrr": lambda hits, k: 1 / (hits.index(True) + 1) if any(hits) else 0.0}


@parametrized(LOOPS)
def test_a_score_equals_its_loop_reference_on_200_random_tables_with_ties(name, loop):
    check_on_random_tables(name, loop)


@parametrized(LOOPS)
def test_a_collapsed_model_scores_at_chance(name, loop):
    check_collapsed(name, loop)


def by_orders(before, size, positives, last):
    """The mean over every choice of the places that the tied positives take."""
    firsts = [before + 1 + min(chosen) for chosen in itertools.combinations(range(size), positives)]
    return math.fsum(1 / place if place <= last else 0.0 for place in firsts) / len(firsts)


def test_each_group_gives_the_mean_over_all_orders():
    kinds = [
        (before, size, positives, last)
        for before, size, last in itertools.product((0, 1, 4), range(1, 7), (0, 1, 3, 5, 20))
        for positives in range(1, size + 1)
    ]
    positives = np.array([kind[2] for kind in kinds])
    above, tied = (np.repeat([kind[place] for kind in kinds], positives) for place in (0, 1))
    ranks = Ranks(above, tied, positives, np.full(len(kinds), 20))
    found = expected_reciprocal(ranks, np.array([kind[3] for kind in kinds]))
    assert found == pytest.approx([by_orders(*kind) for kind in kinds], abs=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_tables_with_copies_equal_loops_over_all_orders(seed):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(8, 3))[generator.integers(8, size=24)]
    labels = generator.integers(6, size=24)
    similarity = np.round(rows @ rows.T / np.outer(*[np.linalg.norm(rows, axis=1)] * 2), 9)
    expected = []
    for query in range(24):
        others = [item for item in range(24) if item != query]
        alike = [similarity[query, item] for item in others if labels[item] == labels[query]]
        if not alike:
            expected.append(0.0)
            continue
        before = sum(similarity[query, item] > max(alike) for item in others)
        size = sum(similarity[query, item] == max(alike) for item in others)
        expected.append(by_orders(before, size, alike.count(max(alike)), 24))
    assert score["mrr"]()(rank_positives(read_table(rows, labels))) == pytest.approx(expected, abs=1e-14)
    assert evaluate(rows, labels, scores="mrr")["mrr"] == pytest.approx(np.mean(expected), abs=1e-14)


def test_only_the_first_positive_matters_and_a_query_without_one_gets_zero():
    rows = np.array([[1.0, 0.0], [1.0, 0.1], [1.0, 0.2], [1.0, 0.3], [0.0, -1.0]])
    ranks = rank_positives(read_table(rows, [0, 1, 0, 0, 2]))
    assert score["mrr"]()(ranks).tolist() == [1 / 2, 0.0, 1.0, 1.0, 0.0]


def test_a_collapsed_model_of_one_positive_each_gives_a_harmonic_number():
    found = evaluate(np.ones((100, 3)), np.arange(100) // 2, scores="mrr")["mrr"]
    assert found == pytest.approx(sum(1 / place for place in range(1, 100)) / 99, abs=1e-14)
