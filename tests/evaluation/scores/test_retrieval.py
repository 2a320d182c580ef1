"""Relations between retrieval scores, closed forms, and pytorch-metric-learning."""

import numpy as np
import pytest

import unseen.evaluation as evaluation
from tests.helpers.ranking_loops import clustered, ranked_at
from unseen.evaluation import (
    AveragePrecision,
    MAPAt1000,
    MAPAtC,
    MAPAtCPrinted,
    MAPAtR,
    Precision,
    Ranks,
    Recall,
    RPrecision,
)
from unseen.evaluation.exact.inputs import read_table
from unseen.evaluation.exact.ranks import rank_positives

RANKED = "recall,precision,r_precision,map@r,map@c,map@c_printed,map@1000,ap"


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


def test_optimistic_ties_put_positives_first():
    embeddings = np.ones((6, 2))
    found = evaluation.evaluate(embeddings, [0, 0, 0, 1, 1, 1], scores=RANKED, ties="optimistic")
    assert found["recall@1"] == found["map@r"] == found["ap"] == 1.0
    assert "positives first" in found.definitions["recall@1"]
