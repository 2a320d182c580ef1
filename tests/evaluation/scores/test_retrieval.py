"""Retrieval scores: closed forms, relations between scores, and other people's implementations."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

import unseen.evaluation as evaluation
from unseen.evaluation.exact.inputs import read_table
from unseen.evaluation.exact.ranks import Ranks, rank_positives
from unseen.evaluation.scores.retrieval import (
    NDCG,
    AveragePrecision,
    MAPAt1000,
    MAPAt1000Printed,
    MAPAtC,
    MAPAtCPrinted,
    MAPAtR,
    Precision,
    Recall,
    RPrecision,
    expected_precision_sum,
)

RANKED = "recall,precision,r_precision,map@r,map@c,map@c_printed,map@1000,ap"


def ranked_at(*places, candidates=2000):
    """The ranks of one query whose positives stand at these places, without ties."""
    return Ranks(
        above=np.array(places) - 1,
        tied=np.ones(len(places), dtype=np.int64),
        positives=np.array([len(places)]),
        candidates=np.array([candidates]),
    )


def clustered(seed=0, count=200, classes=15, noise=1.0, width=8):
    generator = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), np.arange(classes), generator.integers(classes, size=count - 30)])
    return generator.normal(size=(classes, width))[labels] + noise * generator.normal(size=(count, width)), labels


def test_scores_of_a_ranking_computed_by_hand():
    # Positives at places 1, 3 and 1500: R = 3, k_c = 4.
    ranks = ranked_at(1, 3, 1500)
    assert Recall(k=1)(ranks) == 1
    assert Precision(k=2)(ranks) == 1 / 2
    assert Precision(k=4)(ranks) == 2 / 4
    assert RPrecision()(ranks) == pytest.approx(2 / 3)
    assert MAPAtR()(ranks) == pytest.approx((1 + 2 / 3) / 3)
    assert MAPAtC()(ranks) == pytest.approx((1 + 2 / 3) / 4)
    assert MAPAtCPrinted()(ranks) == pytest.approx(2 / 4)
    assert MAPAt1000()(ranks) == pytest.approx((1 + 2 / 3) / 4)
    assert AveragePrecision()(ranks) == pytest.approx((1 + 2 / 3 + 3 / 1500) / 3)


def test_normalised_gain_of_a_ranking_computed_by_hand():
    ranks = ranked_at(1, 3, 1500)
    best = 1 + 1 / np.log2(3) + 1 / 2
    assert NDCG()(ranks) == pytest.approx((1 + 1 / 2 + 1 / np.log2(1501)) / best)
    assert NDCG(k=10)(ranks) == pytest.approx((1 + 1 / 2) / best)
    # Two places have room for two positives only.
    assert NDCG(k=2)(ranks) == pytest.approx(1 / (1 + 1 / np.log2(3)))
    assert NDCG(k=5)(ranked_at(1, 2, 3)) == 1


def test_the_printed_map_at_1000_divides_by_1000():
    assert MAPAt1000Printed()(ranked_at(1, 3, 1000, 1001)) == pytest.approx(3 / 1000)


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


def test_place_1000_counts_and_place_1001_does_not():
    assert MAPAt1000()(ranked_at(1000)) == pytest.approx(1 / 1000 / 2)
    assert MAPAt1000()(ranked_at(1001)) == 0


def test_the_two_definitions_of_map_at_c_differ_in_order_only():
    # Hits at the k_c-th place count in both; only the code's definition asks how early they come.
    assert MAPAtC()(ranked_at(2, 3)) == pytest.approx((1 / 2 + 2 / 3) / 3)
    assert MAPAtCPrinted()(ranked_at(2, 3)) == pytest.approx(2 / 3)


def test_a_collapsed_table_gives_chance_in_closed_form():
    members, count = 7, 70
    found = evaluation.evaluate(np.ones((count, 3)), np.repeat(np.arange(10), members), ks=(1, 5, 69))
    chance = (members - 1) / (count - 1)
    for name in ("recall@1", "precision@1", "precision@5", "r_precision"):
        assert found[name] == pytest.approx(chance, abs=1e-12)
    assert found["map@c_printed"] == pytest.approx(chance, abs=1e-12)
    miss = np.prod([(count - 1 - (members - 1) - i) / (count - 1 - i) for i in range(5)])
    assert found["recall@5"] == pytest.approx(1 - miss, abs=1e-12)
    assert found["recall@69"] == 1
    harmonic = np.sum(1 / np.arange(1, count))
    slope = (members - 2) / (count - 2)
    expected = (harmonic + slope * (count - 1 - harmonic)) / (count - 1)
    assert found["ap"] == pytest.approx(expected, abs=1e-12)


def test_a_collapsed_table_of_thousands_gives_chance():
    labels = np.repeat(np.arange(40), 50)
    found = evaluation.evaluate(np.full((2000, 2), 0.3), labels, scores="recall@1,precision@100")
    assert found["recall@1"] == pytest.approx(49 / 1999, abs=1e-9)
    assert found["precision@100"] == pytest.approx(49 / 1999, abs=1e-9)


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


def test_perfect_retrieval_gives_the_highest_values():
    sizes = np.array([2, 3, 5, 9])
    labels = np.repeat(np.arange(4), sizes)
    found = evaluation.evaluate(np.eye(4)[labels], labels, ks=(1, 18))
    cap = np.mean((sizes[labels] - 1) / sizes[labels])
    for name in ("recall@1", "precision@1", "r_precision", "map@r", "ap", "nmi", "f1"):
        assert found[name] == pytest.approx(1.0, abs=1e-12)
        assert found[name] <= 1.0
    for name in ("map@c", "map@c_printed", "map@1000"):
        assert found[name] == pytest.approx(cap, abs=1e-12)
    assert found["precision@18"] == pytest.approx(np.mean((sizes[labels] - 1) / 18), abs=1e-12)


def test_rounding_lifts_no_tied_group_of_positives_above_one():
    for before in range(0, 40, 3):
        for size in range(2, 40):
            above = np.concatenate([np.arange(before), np.full(size, before)])
            tied = np.concatenate([np.ones(before, dtype=np.int64), np.full(size, size)])
            ranks = Ranks(above, tied, positives=np.array([before + size]), candidates=np.array([100]))
            for score in (
                MAPAtR(),
                AveragePrecision(),
                Precision(k=before + size // 2),
                Precision(k=before + size - 1),
            ):
                value = score(ranks)[0]
                assert value == pytest.approx(1.0, abs=1e-12)
                assert value <= 1.0


@pytest.mark.parametrize("seed", range(10))
def test_the_relations_between_the_scores_hold(seed):
    embeddings, labels = clustered(seed, noise=0.3 * seed + 0.2)
    embeddings[:40] = embeddings[40:80]
    found = evaluation.evaluate(embeddings, labels, scores=RANKED, ks=(1, 2, 3, 10, 50, 199))
    recalls = [found[f"recall@{k}"] for k in (1, 2, 3, 10, 50, 199)]
    assert recalls == sorted(recalls)
    assert found["recall@199"] == 1
    assert found["precision@1"] == pytest.approx(found["recall@1"], abs=1e-12)
    sizes = np.bincount(labels)[labels]
    assert found["precision@199"] == pytest.approx(np.mean(sizes - 1) / 199, abs=1e-12)
    ranks = rank_positives(read_table(embeddings, labels))
    share = (sizes - 1) / sizes
    assert (MAPAtC()(ranks) <= MAPAtCPrinted()(ranks) + 1e-12).all()
    assert (MAPAtC()(ranks) >= share * MAPAtR()(ranks) - 1e-12).all()
    assert (MAPAtR()(ranks) <= RPrecision()(ranks) + 1e-12).all()
    assert (MAPAtC()(ranks) <= MAPAt1000()(ranks) + 1e-12).all()
    # Fewer than 1,000 neighbours: the cut-off takes nothing away.
    assert MAPAt1000()(ranks) == pytest.approx(share * AveragePrecision()(ranks), abs=1e-12)
    for k in (1, 3, 10):
        assert (Precision(k=k)(ranks) <= np.minimum(1, (sizes - 1) / k) + 1e-12).all()


def test_average_precision_equals_scikit_learn_on_rows_without_ties():
    embeddings, labels = clustered(1)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    values = AveragePrecision()(rank_positives(read_table(embeddings, labels)))
    for query in range(len(labels)):
        others = np.arange(len(labels)) != query
        expected = average_precision_score(labels[others] == labels[query], (unit @ unit[query])[others])
        assert values[query] == pytest.approx(expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # faiss's wrapper types
def test_scores_equal_those_of_pytorch_metric_learning():
    calculators = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    import torch

    embeddings, labels = clustered(2, count=300)
    unit = (embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)).astype(np.float32)
    names = {"precision_at_1": "recall@1", "r_precision": "r_precision", "mean_average_precision_at_r": "map@r"}
    calculator = calculators.AccuracyCalculator(include=tuple(names), k="max_bin_count")
    theirs = calculator.get_accuracy(torch.from_numpy(unit), torch.from_numpy(labels))
    ours = evaluation.evaluate(unit, labels, scores=list(names.values()))
    for their_name, our_name in names.items():
        assert ours[our_name] == pytest.approx(theirs[their_name], abs=1e-6)


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


def test_optimistic_ties_put_positives_first():
    embeddings = np.ones((6, 2))
    found = evaluation.evaluate(embeddings, [0, 0, 0, 1, 1, 1], scores=RANKED, ties="optimistic")
    assert found["recall@1"] == found["map@r"] == found["ap"] == 1.0
    assert "positives first" in found.definitions["recall@1"]
