"""Failures against plain loops, with ties, copies, groups, and separate queries and gallery."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from unseen.core.errors import BatchError, ConfigError
from unseen.evaluation.exact import nearest_other_class as crossings
from unseen.evaluation.exact.inputs import read_table
from unseen.evaluation.exact.ranks import Ranks
from unseen.evaluation.exact.row_hashes import order_of, row_keys
from unseen.evaluation.failures import expected_first_rank, failures


def tied_table(seed, count=40, classes=6):
    """Few directions, so that most similarities tie, and copies within and across classes."""
    generator = np.random.default_rng(seed)
    rows = generator.integers(-1, 2, size=(count, 3)).astype(float)
    return rows, generator.integers(classes, size=count)


def cosines(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths > 0, lengths, 1)
    # Cosines of these tables are equal or differ by far more than this.
    return np.round(unit @ unit.T, 9)


def by_loops(rows, labels, queries=None, gallery=None, groups=None, count=20, threshold=0.9):
    """The same lists, one query and one pair at a time."""
    table = read_table(rows, labels)
    number = np.argsort(order_of(row_keys(table.directions), table.classes)).tolist()
    similarity, every = cosines(rows), range(len(rows))
    queries, gallery = list(every if queries is None else queries), list(every if gallery is None else gallery)

    def may_answer(query, item):
        return item != query and (groups is None or groups[item] != groups[query])

    worst, pairs = [], set()
    taken: dict[Any, Any] = {}
    hits: dict[Any, Any] = {}
    for query in queries:
        items = sorted((i for i in gallery if may_answer(query, i)), key=lambda i: (-similarity[query, i], number[i]))
        positives = [i for i in items if labels[i] == labels[query]]
        negatives = [i for i in items if labels[i] != labels[query]]
        pairs |= {tuple(sorted((query, i), key=lambda r: number[r])) for i in negatives}
        if not positives:
            continue
        top = similarity[query, positives[0]]
        above = sum(similarity[query, i] > top for i in items)
        tied = sum(similarity[query, i] == top for i in items)
        right = sum(similarity[query, i] == top for i in positives)
        rank = above + (tied + 1) / (right + 1)
        hits.setdefault(labels[query], []).append(0.0 if above else right / tied)
        if rank > 1:
            worst.append((-rank, query, positives[0], negatives[0]))
            taken.setdefault((labels[query], labels[negatives[0]]), []).append((query, negatives[0]))
    confused = sorted((-len(found), -len(found) / len(hits[pair[0]]), *pair) for pair, found in taken.items())
    examples = [
        min(taken[pair[2:]], key=lambda example: (-similarity[example], number[example[0]])) for pair in confused
    ]
    near = sorted(
        (-similarity[pair], number[pair[0]], number[pair[1]], *pair) for pair in pairs if similarity[pair] >= threshold
    )
    recall = {label: sum(values) / len(values) for label, values in hits.items()}
    weakest = {label: (recall[label], len(hits[label])) for label in recall if recall[label] < 1 - 1e-12}
    return worst, confused[:count], examples[:count], near, weakest


def check(rows, labels, *, threshold=0.9, count=20, **options):
    found = failures(rows, labels, count=count, duplicate_similarity=threshold, **options)
    worst, confused, examples, near, weakest = by_loops(rows, labels, count=count, threshold=threshold, **options)
    assert found.failed_queries == len(worst)
    expected = {query: (-rank, positive, wrong) for rank, query, positive, wrong in worst}
    assert found.worst.rank.tolist() == pytest.approx([-entry[0] for entry in sorted(worst)[:count]])
    for query, rank, positive, wrong in zip(
        *(found.worst.query.tolist(), found.worst.rank.tolist(), found.worst.positive, found.worst.wrong), strict=True
    ):
        assert (pytest.approx(rank), positive, wrong) == expected[query]
    assert found.confused.queries.tolist() == [-entry[0] for entry in confused]
    assert found.confused.share.tolist() == [-entry[1] for entry in confused]
    pairs = zip(found.confused.label.tolist(), found.confused.wrong_label.tolist(), strict=True)
    assert list(pairs) == [entry[2:] for entry in confused]
    assert list(zip(found.confused.query.tolist(), found.confused.item.tolist(), strict=True)) == examples
    assert found.duplicate_pairs == len(near)
    pairs = zip(found.near_duplicates.first.tolist(), found.near_duplicates.second.tolist(), strict=True)
    assert list(pairs) == [entry[3:] for entry in near[:count]]
    assert len(found.weakest.label) == min(count, len(weakest))
    assert found.weakest.recall == pytest.approx(sorted(value for value, _ in weakest.values())[:count], abs=1e-12)
    for label, recall, number in zip(
        *(found.weakest.label.tolist(), found.weakest.recall, found.weakest.queries), strict=True
    ):
        assert (recall, number) == (pytest.approx(weakest[label][0], abs=1e-12), weakest[label][1])
    return found


@pytest.mark.parametrize("seed", range(12))
def test_failures_equal_plain_loops_on_tables_full_of_ties(seed):
    rows, labels = tied_table(seed)
    found = check(rows, labels.tolist(), threshold=0.75, count=7)
    assert len(found.worst.query) == 7
    check(*(each.tolist() if each.ndim == 1 else each for each in tied_table(seed, count=9, classes=3)))


@pytest.mark.parametrize("seed", range(4))
def test_failures_equal_plain_loops_without_ties(seed):
    generator = np.random.default_rng(seed)
    found = check(generator.normal(size=(60, 4)), generator.integers(8, size=60).tolist(), threshold=0.8)
    assert found.duplicate_pairs > 20 == len(found.near_duplicates.first)


@pytest.mark.parametrize("seed", range(4))
def test_queries_and_galleries_that_overlap_and_groups_equal_plain_loops(seed):
    generator = np.random.default_rng(seed)
    rows, labels = tied_table(seed)
    queries, gallery = generator.permutation(40)[:18].tolist(), generator.permutation(40)[:25].tolist()
    groups = generator.integers(5, size=40).tolist()
    check(rows, labels.tolist(), queries=queries, gallery=gallery)
    check(rows, labels.tolist(), groups=groups)
    check(rows, labels.tolist(), queries=queries, gallery=gallery, groups=groups)


def test_a_gallery_of_its_own_is_numbered_behind_the_queries():
    rows, labels = tied_table(1)
    together = failures(rows, labels, queries=range(15), gallery=range(15, 40), duplicate_similarity=0.9).to_dict()
    parts = failures(rows[:15], labels[:15], gallery=(rows[15:], labels[15:]), duplicate_similarity=0.9).to_dict()
    assert parts == together


def test_another_order_of_the_rows_only_renames_them():
    generator = np.random.default_rng(3)
    # No two have one direction: copies of one class cannot be told apart.
    rows = np.unique(generator.integers(-1, 2, size=(60, 4)).astype(float), axis=0)
    labels = np.array([f"class {label}" for label in generator.integers(5, size=len(rows))])
    order = generator.permutation(len(rows))
    before, after = (failures(rows[o], labels[o], count=30, duplicate_similarity=0.8) for o in (slice(None), order))
    for name in ("worst", "confused", "near_duplicates", "weakest"):
        one, two = getattr(before, name)._asdict(), getattr(after, name)._asdict()
        assert len(one["similarity" if "similarity" in one else "label"]) > 2
        for key, values in two.items():
            is_row = key in ("query", "positive", "wrong", "item", "first", "second")
            assert (order[values] if is_row else values).tolist() == one[key].tolist(), (name, key)


@pytest.mark.parametrize("precision", ["highest", "medium"])
@pytest.mark.parametrize("many", [0, 3, 2**15])
def test_tiles_memory_and_the_way_to_decide_do_not_matter(many, precision, monkeypatch):
    rows, labels = tied_table(5, count=120)
    rows[:60] = np.random.default_rng(0).normal(size=(60, 3))
    table = read_table(rows, labels)
    order = order_of(row_keys(table.directions), table.classes)
    expected = crossings.match_other_classes(table, order, count=9, threshold=0.9)
    monkeypatch.setattr(crossings, "_MANY_PAIRS", many)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        for side in (17, 64, 2048):
            found = crossings.match_other_classes(table, order, count=9, threshold=0.9, side=side, memory=1)
            assert found.nearest.tolist() == expected.nearest.tolist()
            assert [part.tolist() for part in found.near_duplicates] == [
                part.tolist() for part in expected.near_duplicates
            ]
            assert found.near_duplicate_count == expected.near_duplicate_count
    finally:
        torch.set_float32_matmul_precision(before)


def test_copies_across_classes_have_a_similarity_of_exactly_one():
    rows = np.random.default_rng(2).normal(size=(30, 16))
    rows[20:] = rows[:10] * np.linspace(0.1, 9, 10)[:, None]
    found = failures(rows, np.arange(30), duplicate_similarity=1)
    assert found.duplicate_pairs == 10
    assert found.near_duplicates.similarity.tolist() == [1.0] * 10
    assert {*zip(found.near_duplicates.first % 20, found.near_duplicates.second % 20, strict=True)} == {
        (row, row) for row in range(10)
    }


def test_the_shares_of_a_class_taken_for_others_add_up_to_what_recall_lacks():
    generator = np.random.default_rng(7)
    found = failures(generator.normal(size=(80, 5)), generator.integers(6, size=80), count=100)
    for label, recall in zip(found.weakest.label, found.weakest.recall, strict=True):
        assert found.confused.share[found.confused.label == label].sum() == pytest.approx(1 - recall, abs=1e-12)


def test_the_expected_place_of_the_first_positive_is_its_mean_over_all_orders():
    # Behind 3 items, 5 tied ones of which 2 are positives: the first stands at place 1, 2, 3 or 4 of the group.
    ranks = Ranks(np.array([3, 3]), np.array([5, 5]), np.array([2, 0]), np.array([9, 9]))
    mean = sum(place * (5 - place) for place in (1, 2, 3, 4)) / 10
    assert expected_first_rank(ranks).tolist() == [3 + mean, 0]


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ([[1.0, 0.0]], ["a"]),
        (np.eye(4).tolist(), ["a"] * 4),
        ([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]], ["a", "a", "b", "b"]),
        (np.eye(4).tolist(), list("abcd")),
    ],
    ids=["one item", "one class", "perfect", "all distinct"],
)
def test_where_nothing_fails_the_lists_are_empty(rows, labels):
    found = failures(np.array(rows), labels)
    assert found.failed_queries == found.confused_pairs == found.duplicate_pairs == 0
    assert not any(
        len(each) for name in ("worst", "confused", "near_duplicates", "weakest") for each in vars(found)[name]
    )
    assert found.queries_without_positives == sum(labels.count(label) == 1 for label in labels)


def test_labels_of_any_size_and_texts_come_back_as_given_and_json_holds_all():
    rows, labels = tied_table(4)
    for name in (lambda label: 10**20 + label, lambda label: f"class {label}", lambda label: label - 3):
        named = [name(int(label)) for label in labels]
        found = json.loads(json.dumps(failures(rows, named).to_dict()))
        assert {*found["worst"]["label"]} <= {*named}
        assert [named[row] for row in found["worst"]["query"]] == found["worst"]["label"]
        assert [named[row] for row in found["near_duplicates"]["second"]] == found["near_duplicates"]["second_label"]


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="failures: count must be an integer >= 1; got 0"):
        failures(np.eye(3), [0, 1, 2], count=0)
    with pytest.raises(ConfigError, match="failures: duplicate_similarity must be a number from -1 to 1; got 2"):
        failures(np.eye(3), [0, 1, 2], duplicate_similarity=2)
    with pytest.raises(BatchError, match="queries must be rows from 0 to 2"):
        failures(np.eye(3), [0, 1, 2], queries=[3])
