"""Precision and its variants against loops."""

import pytest

from tests.helpers.ranking_loops import check_collapsed, check_on_random_tables, divided, parametrized, ranked_at
from unseen.evaluation.scores.precision import MAPAt1000Printed

LOOPS = {
    "precision": lambda hits, k: sum(hits[:k]) / k,
    "r_precision": lambda hits, k: divided(sum(hits[: sum(hits)]), sum(hits)),
    "map@c_printed": lambda hits, k: sum(hits[: sum(hits) + 1]) / (sum(hits) + 1),
    "map@1000_printed": lambda hits, k: sum(hits[:1000]) / 1000,
}


@parametrized(LOOPS)
def test_a_score_equals_its_loop_reference_on_200_random_tables_with_ties(name, loop):
    check_on_random_tables(name, loop)


@parametrized(LOOPS)
def test_a_collapsed_model_scores_at_chance(name, loop):
    check_collapsed(name, loop)


def test_the_printed_map_at_1000_divides_by_1000():
    assert MAPAt1000Printed()(ranked_at(1, 3, 1000, 1001)) == pytest.approx(3 / 1000)
