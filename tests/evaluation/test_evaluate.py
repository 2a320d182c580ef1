"""The whole call: query and gallery, what is counted, what is refused."""

import numpy as np
import pytest
import torch

import unseen.evaluation as evaluation
from unseen.core.errors import BatchError, ConfigError

RETRIEVAL = "recall,precision,r_precision,map@r,map@c,map@c_printed,map@1000,ap"


def clustered(seed=0, count=150, classes=15):
    generator = np.random.default_rng(seed)
    labels = np.concatenate([np.repeat(np.arange(classes), 2), generator.integers(classes, size=count - 2 * classes)])
    return generator.normal(size=(classes, 8))[labels] + generator.normal(size=(count, 8)), labels


def test_every_score_is_computed_by_default_and_defined():
    embeddings, labels = clustered()
    found = evaluation.evaluate(embeddings, labels)
    assert list(found) == [
        *(f"recall@{k}" for k in (1, 2, 4, 8)),
        *(f"precision@{k}" for k in (1, 2, 4, 8)),
        *("r_precision", "map@r", "map@c", "map@c_printed", "map@1000", "map@1000_printed", "ap", "mrr", "ndcg"),
        *("nmi", "ami", "f1", "rho", "rho@2", "rho_reverse", "intra", "inter", "intra_inter", "alignment"),
        *("uniformity", "pair_auc", "pair_ap", "pair_eer"),
    ]
    assert list(found.intervals) == list(found)
    for name, (low, high) in found.intervals.items():
        assert low <= found[name] <= high, name
    assert (found.queries, found.gallery, found.classes, found.queries_without_positives) == (150, 150, 15, 0)
    assert "20 iterations" in found.definitions["nmi"]
    assert "seed 0" in found.definitions["f1"]
    assert all(type(value) is float for value in found.values())


def test_queries_against_a_gallery_of_other_rows_exclude_nothing():
    embeddings, labels = clustered()
    found = evaluation.evaluate(embeddings, labels, queries=range(50), gallery=range(50, 150), scores=RETRIEVAL)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    nearest = 50 + (unit[:50] @ unit[50:].T).argmax(axis=1)
    assert found["recall@1"] == pytest.approx(np.mean(labels[nearest] == labels[:50]), abs=1e-12)
    assert (found.queries, found.gallery) == (50, 100)


def test_rows_of_one_table_and_two_tables_give_the_same_scores():
    embeddings, labels = clustered()
    names = [f"bird {label}" for label in labels]
    one = evaluation.evaluate(embeddings, labels, queries=np.arange(150) < 50, gallery=np.arange(150) >= 50)
    two = evaluation.evaluate(
        torch.tensor(embeddings[:50]), names[:50], gallery=(torch.tensor(embeddings[50:]), names[50:])
    )
    assert {name: value for name, value in one.items() if name != "nmi"} == {
        name: value for name, value in two.items() if name != "nmi"
    }
    assert one["nmi"] == pytest.approx(two["nmi"], abs=1e-12)


def test_a_gallery_that_copies_the_queries_is_found_at_once():
    embeddings, labels = np.random.default_rng(1).normal(size=(80, 16)), np.arange(80)
    found = evaluation.evaluate(embeddings, labels, gallery=(embeddings, labels), scores="recall@1,map@r")
    assert found["recall@1"] == found["map@r"] == 1.0


def test_copies_are_told_apart_in_a_model_that_has_almost_collapsed():
    # Angles of 1e-5 are cosines of 1 - 5e-11: the rounded length of a direction (1e-8) must not decide.
    embeddings = np.ones((80, 16)) + 1e-5 * np.random.default_rng(1).normal(size=(80, 16))
    found = evaluation.evaluate(embeddings, np.arange(80), gallery=(embeddings, np.arange(80)), scores="recall@1")
    assert found["recall@1"] == 1.0


def test_gallery_items_of_unseen_classes_can_only_lower_recall():
    embeddings, labels = clustered(2)
    strangers = np.random.default_rng(3).normal(size=(100, 8))
    before = evaluation.evaluate(embeddings, labels, scores="recall")
    after = evaluation.evaluate(
        np.concatenate([embeddings, strangers]),
        np.concatenate([labels, np.full(100, -1)]),
        queries=range(150),
        scores="recall",
    )
    assert all(after[name] <= before[name] for name in before)


def test_some_queries_against_all_rows_are_scored_without_themselves():
    embeddings, labels = clustered(4)
    every = evaluation.evaluate(embeddings, labels, scores="ap")
    parts = [evaluation.evaluate(embeddings, labels, queries=[row], scores="ap")["ap"] for row in range(150)]
    assert np.mean(parts) == pytest.approx(every["ap"], abs=1e-12)


def test_queries_without_positives_are_shown_and_count_as_zero_or_not_at_all():
    embeddings, labels = clustered(5)
    lonely = np.concatenate([labels, 1000 + np.arange(50)])
    with_lonely = np.concatenate([embeddings, np.random.default_rng(6).normal(size=(50, 8))])
    zero = evaluation.evaluate(with_lonely, lonely, scores=RETRIEVAL)
    skip = evaluation.evaluate(with_lonely, lonely, scores=RETRIEVAL, empty="skip")
    assert zero.queries_without_positives == skip.queries_without_positives == 50
    for name in zero:
        assert zero[name] == pytest.approx(skip[name] * 150 / 200, abs=1e-12)
    assert "left out" in skip.definitions["recall@1"]


def test_no_query_with_a_positive_gives_zero_or_one_clear_error():
    found = evaluation.evaluate(np.eye(4), [0, 1, 2, 3], scores=RETRIEVAL)
    assert set(found.values()) == {0.0}
    with pytest.raises(BatchError, match="no query has a positive"):
        evaluation.evaluate(np.eye(4), [0, 1, 2, 3], scores=RETRIEVAL, empty="skip")


def test_two_images_of_one_class_find_each_other():
    found = evaluation.evaluate(np.array([[1.0, 0.0], [-1.0, 0.0]]), ["a", "a"], ks=(1,))
    assert found["recall@1"] == found["ap"] == found["map@r"] == found["nmi"] == found["f1"] == 1.0
    assert found["map@c"] == 0.5


def test_clustering_counts_queries_and_gallery_once_each():
    embeddings, labels = clustered(7)
    half = evaluation.evaluate(embeddings, labels, queries=range(100), gallery=range(50, 150), scores="nmi,f1")
    complete = evaluation.evaluate(embeddings, labels, scores="nmi,f1")
    assert dict(half) == dict(complete)


def test_the_settings_of_kmeans_are_part_of_the_definition():
    embeddings, labels = clustered(8)
    found = evaluation.evaluate(embeddings, labels, scores="nmi", kmeans=evaluation.KMeans(iterations=5, seed=9))
    assert "5 iterations" in found.definitions["nmi"]
    assert "seed 9" in found.definitions["nmi"]


def test_half_precision_embeddings_are_scored_as_the_numbers_they_hold():
    embeddings, labels = clustered(9)
    half = torch.tensor(embeddings, dtype=torch.bfloat16)
    assert evaluation.evaluate(half, labels) == evaluation.evaluate(half.to(torch.float64).numpy(), labels)


def test_nothing_random_is_drawn_from_the_global_generators():
    embeddings, labels = clustered(10)
    states = torch.get_rng_state(), repr(np.random.get_state())
    evaluation.evaluate(embeddings, labels)
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == repr(np.random.get_state())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": "recal@1"}, "unknown score 'recal@1'"),
        ({"ks": (0,)}, "each of ks must be an integer >= 1; got 0"),
        ({"ks": (1.5,)}, "each of ks must be an integer"),
        ({"ties": "index"}, "evaluate: ties must be one of 'expected', 'optimistic'; got 'index'"),
        ({"empty": "one"}, "evaluate: empty must be one of 'zero', 'skip'; got 'one'"),
        ({"memory": 0}, "evaluate: memory must be an integer >= 1; got 0"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_sentence(arguments, message):
    embeddings, labels = clustered()
    with pytest.raises(ConfigError, match=message):
        evaluation.evaluate(embeddings, labels, **arguments)


def test_no_bootstrap_gives_the_same_scores_without_intervals():
    embeddings, labels = clustered()
    with_intervals, without = (
        evaluation.evaluate(embeddings, labels),
        evaluation.evaluate(embeddings, labels, bootstrap=None),
    )
    assert dict(with_intervals) == dict(without)
    assert (without.intervals, without.draws) == ({}, None)


def test_scores_that_are_left_out_are_named():
    embeddings, labels = clustered()
    found = evaluation.evaluate(embeddings, labels, without="clusters,curves", bootstrap=None)
    assert found.left_out == ("nmi", "ami", "f1", "uniformity", "pair_auc", "pair_ap", "pair_eer")
    assert not set(found.left_out) & set(found)
    assert evaluation.evaluate(embeddings, labels, scores="recall", without="nmi").left_out == ()


def test_super_labels_give_scores_of_their_own():
    embeddings, labels = clustered()
    found = evaluation.evaluate(embeddings, labels, super_labels=labels // 5, scores="nmi,nmi_super,f1_super")
    coarse = evaluation.evaluate(embeddings, labels // 5, scores="nmi,f1")
    assert (found["nmi_super"], found["f1_super"]) == (coarse["nmi"], coarse["f1"])
    assert "nmi_super" not in evaluation.evaluate(embeddings, labels, scores=None, bootstrap=None)
    with pytest.raises(ConfigError, match="nmi_super needs super_labels"):
        evaluation.evaluate(embeddings, labels, scores="nmi_super")
    with pytest.raises(BatchError, match="each class must lie in one super-class"):
        evaluation.evaluate(embeddings, labels, super_labels=np.arange(150) % 3, scores="nmi_super")


def test_rows_of_one_group_do_not_answer_each_other():
    embeddings, labels = clustered()
    groups = np.arange(150) // 3
    found = evaluation.evaluate(embeddings, labels, groups=groups, scores="recall@1")
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    similarity = np.where(groups[:, None] == groups, -2.0, unit @ unit.T)
    assert found["recall@1"] == pytest.approx(np.mean(labels[similarity.argmax(axis=1)] == labels), abs=1e-12)
    alone = [i for i in range(150) if not ((labels == labels[i]) & (groups != groups[i])).any()]
    assert found.queries_without_positives == len(alone)


def test_intervals_of_clusters_structure_and_curves_narrow_with_more_classes():
    names = "recall@1,nmi,rho,intra_inter,pair_auc,uniformity"
    widths = []
    for classes in (12, 192):
        embeddings, labels = clustered(seed=3, count=8 * classes, classes=classes)
        intervals = evaluation.evaluate(embeddings, labels, scores=names).intervals
        widths.append(np.array([high - low for low, high in intervals.values()]))
    assert (widths[0] > 1.5 * widths[1]).all()
