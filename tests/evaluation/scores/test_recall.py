"""Recall@k against loops, and copies of images."""

import numpy as np
import pytest

import unseen.evaluation as evaluation
from tests.helpers.ranking_loops import check_collapsed, check_on_random_tables, parametrized

LOOPS = {"recall": lambda hits, k: float(any(hits[:k]))}


@parametrized(LOOPS)
def test_a_score_equals_its_loop_reference_on_200_random_tables_with_ties(name, loop):
    check_on_random_tables(name, loop)


@parametrized(LOOPS)
def test_a_collapsed_model_scores_at_chance(name, loop):
    check_collapsed(name, loop)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_copies_across_classes_are_scored_by_the_definition(share):
    # Every image alone in its direction, classes of two, then copies with another label: the nearest of a copied image
    # is its copy, which is wrong; dropping the first neighbour blindly would report successes.
    generator = np.random.default_rng(0)
    originals = generator.normal(size=(200, 32))
    copies = originals[: int(200 * share)]
    embeddings = np.concatenate([originals, copies])
    labels = np.concatenate([np.arange(200), 1000 + np.arange(len(copies))])
    found = evaluation.evaluate(embeddings, labels, scores="recall@1,recall@2")
    assert found["recall@1"] == found["recall@2"] == 0.0
    assert found.queries_without_positives == len(labels)


def test_a_copy_of_a_positive_and_a_copy_of_a_negative_share_the_first_place():
    # The query 0 has the positive 1 and the negative 2 on one spot: half of the orders are right.
    embeddings = np.array([[1.0, 0.0], [1.0, 0.1], [1.0, 0.1], [0.0, 1.0]])
    found = evaluation.evaluate(embeddings, [0, 0, 1, 2], queries=[0], scores="recall", ks=(1, 2))
    assert (found["recall@1"], found["recall@2"]) == (0.5, 1.0)
