"""What every registered score must do; a score is under this contract as soon as it is registered."""

import math

import numpy as np
import pytest
import torch

import unseen.evaluation as evaluation
from unseen.core.config import build, record_of
from unseen.core.registry import score
from unseen.evaluation.bases import BASES, NEEDS_SUPER_LABELS

KS = (1, 2, 3, 5)


def coarser(name, labels):
    """Super-labels where a score needs them: three classes each; labels are numbers or names "class N"."""
    if score[name].basis not in NEEDS_SUPER_LABELS:
        return {}
    return {"super_labels": [int(str(label).rpartition(" ")[2]) // 3 for label in labels]}


def clustered(count=120, classes=12, width=8, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=count)
    return (generator.normal(size=(classes, width))[labels] + generator.normal(size=(count, width))), labels


@pytest.fixture(params=score.names())
def name(request):
    return request.param


def value_of(name, rows, labels):
    return dict(
        evaluation.evaluate(np.asarray(rows), labels, scores=name, ks=KS, bootstrap=None, **coarser(name, labels))
    )


def is_worse(name, value, other):
    """Whether a value is worse than another by more than rounding."""
    return value < other - 1e-9 if score[name].higher_is_better else value > other + 1e-9


def test_a_collapsed_model_scores_as_the_score_states(name):
    labels = np.repeat(np.arange(6), 5)
    collapsed = value_of(name, np.ones((30, 4)), labels)
    generator = np.random.default_rng(0)
    # Equal embeddings say nothing about labels: any labelling of the same sizes scores the same.
    assert value_of(name, np.full((30, 4), 0.3), generator.permutation(labels)) == pytest.approx(collapsed, abs=1e-12)
    stated = score[name].collapsed
    randoms = [value_of(name, generator.normal(size=(30, 4)), labels) for _ in range(60)]
    for full_name, value in collapsed.items():
        values = [other[full_name] for other in randoms]
        if stated == "chance":
            # Four standard errors, and the bias that average precision over few pairs has.
            tolerance = 4 * np.std(values) / math.sqrt(len(values)) + 0.02
            assert value == pytest.approx(np.mean(values), abs=tolerance)
        elif stated == "one cluster":
            classes = np.array(coarser(name, labels).get("super_labels", labels))
            assert value == score[name]()(np.zeros(30, dtype=np.int64), classes)
        elif stated == "worst":
            assert all(is_worse(name, value, other) for other in values)
        else:
            assert value == pytest.approx(stated, abs=1e-12)


def test_random_embeddings_score_like_shuffled_labels(name):
    generator = np.random.default_rng(1)
    labels = np.repeat(np.arange(20), 15)
    rows = generator.normal(size=(300, 16))
    values = value_of(name, rows, labels)
    # Ranks and clusters of any rows are chance then; other scores depend on the rows too.
    is_chance = score[name].basis in ("ranks", "clusters", "super_clusters")
    other_rows = clustered(count=300, seed=3)[0] if is_chance else rows
    shuffled = [value_of(name, other_rows, generator.permutation(labels)) for _ in range(5)]
    for full_name, value in values.items():
        # 300 queries: the standard error of a share is at most 0.03. Ratios of distances are larger than 1.
        assert value == pytest.approx(np.mean([other[full_name] for other in shuffled]), abs=0.1, rel=0.1)


def test_the_order_of_the_rows_and_the_names_of_the_classes_do_not_matter(name):
    rows, labels = clustered()
    rows[:20] = rows[20:40]  # copies, some of them across classes
    order = np.random.default_rng(5).permutation(len(rows))
    # Another order of the same super-classes too.
    renamed = np.array([f"class {(label + 3) % 12}" for label in labels])
    before = value_of(name, rows, labels)
    for full_name, value in value_of(name, rows[order], renamed[order]).items():
        assert value == before[full_name]


def test_rotation_length_and_type_of_the_embeddings_do_not_matter(name):
    rows, labels = clustered()
    lengths = np.random.default_rng(2).uniform(0.1, 10, size=(len(rows), 1))
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(8, 8)))[0]
    before = value_of(name, rows, labels)
    as_tensor = evaluation.evaluate(
        torch.tensor(rows), torch.tensor(labels), scores=name, ks=KS, **coarser(name, labels)
    )
    assert dict(as_tensor) == before
    if "cluster" not in score[name].basis:  # a rotated table may start k-means elsewhere
        # Ranks are exact; what is computed from the directions themselves knows them to 2^-26.
        tolerance = 1e-9 if score[name].basis == "ranks" else 1e-6
        for full_name, value in value_of(name, rows @ rotation * lengths, labels).items():
            assert value == pytest.approx(before[full_name], abs=tolerance)


def test_threads_and_memory_do_not_matter(name):
    rows, labels = clustered(count=600, width=64)
    threads = torch.get_num_threads()
    try:
        results = []
        for count, memory in ((1, 64), (2, 64), (2, 1)):
            torch.set_num_threads(count)
            settings = {"scores": name, "ks": KS, "memory": memory} | coarser(name, labels)
            results.append(evaluation.evaluate(rows, labels, **settings))
    finally:
        torch.set_num_threads(threads)
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ([[1.0, 0.0]], [0]),
        ([[0.0, 0.0]], [0]),
        ([[1.0, 0.0], [0.0, 1.0]], [0, 0]),
        ([[1.0, 0.0], [0.0, 1.0]], [0, 1]),
        (np.eye(6).tolist(), [0] * 6),
        (np.eye(6).tolist(), list(range(6))),
        (np.zeros((6, 3)).tolist(), [0, 0, 1, 1, 2, 2]),
        ([[1e300, 0.0], [0.0, 1e-300], [1e-320, 0.0]], [0, 0, 1]),
    ],
    ids=["one", "one zero", "pair", "strangers", "one class", "all distinct", "all zero", "extreme lengths"],
)
def test_degenerate_tables_are_scored_within_the_bounds(name, rows, labels):
    scores = evaluation.evaluate(np.array(rows), labels, scores=name, ks=KS, **coarser(name, labels))
    low, high = score[name].bounds
    assert all(low <= value <= high and math.isfinite(value) for value in scores.values())
    for full_name, interval in scores.intervals.items():
        assert low <= interval[0] <= interval[1] <= high
        # Replicates that are all equal have a mean that is rounded.
        assert interval[0] - 1e-9 <= scores[full_name] <= interval[1] + 1e-9
    assert scores.queries == scores.gallery == len(labels)
    assert scores.queries_without_positives == sum(labels.count(label) == 1 for label in labels)


def test_perfect_embeddings_are_not_worse_than_random_ones(name):
    labels = np.repeat(np.arange(6), 5)
    # Classes at the corners of a simplex, as far apart as six classes can be, and nearly no spread inside.
    perfect = (np.eye(6) - 1 / 6)[labels] + 1e-3 * np.random.default_rng(4).normal(size=(30, 6))
    values = value_of(name, perfect, labels)
    for full_name, other in value_of(name, np.random.default_rng(5).normal(size=(30, 6)), labels).items():
        if score[name].basis != "spectrum" and name != "uniformity":  # these do not look at labels
            assert not is_worse(name, values[full_name], other)


def test_a_score_states_its_facts_and_survives_its_record(name):
    component = score[name]
    assert component.__doc__
    assert isinstance(component.higher_is_better, bool)
    assert isinstance(component.is_default, bool)
    assert component.basis in BASES
    assert component.bounds[0] < component.bounds[1]
    built = build(score, name)
    assert len(built.definition) > 20
    assert record_of(score, build(score, record_of(score, built))) == record_of(score, built)
    rows, labels = clustered()
    scores = evaluation.evaluate(rows, labels, scores=name, **coarser(name, labels))
    assert set(scores.definitions) == set(scores) == set(scores.intervals)
    words = {"clusters": "seed 0", "super_clusters": "seed 0", "ranks": "ties"}.get(component.basis, "")
    assert all(words in definition for definition in scores.definitions.values())
