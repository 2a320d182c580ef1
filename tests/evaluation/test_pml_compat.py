"""The familiar AccuracyCalculator against the real one, on tables without ties."""

import inspect
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator as TheirCalculator
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from unseen.core.errors import BatchError, ConfigError
from unseen.evaluation import KMeans
from unseen.evaluation.exact.directions import read_directions
from unseen.evaluation.pml_compat import AccuracyCalculator

CLUSTERING = ("AMI", "NMI")
RETRIEVAL = (
    *("mean_average_precision", "mean_average_precision_at_r", "mean_reciprocal_rank"),
    *("precision_at_1", "r_precision"),
)


def table(seed, count=60, classes=8):
    """Unit vectors without ties; classes of unlike sizes, the last of one item."""
    generator = np.random.default_rng(seed)
    labels = np.minimum(generator.integers(classes - 1, size=count), generator.integers(classes - 1, size=count))
    labels[0] = classes - 1
    rows = generator.normal(size=(classes, 6))[labels] + 1.5 * generator.normal(size=(count, 6))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return torch.tensor(unit, dtype=torch.float32), torch.tensor(labels)


def both(settings, *arguments, **options):
    ours = AccuracyCalculator(**settings, exclude=CLUSTERING).get_accuracy(*arguments, **options)
    theirs = TheirCalculator(**settings, exclude=CLUSTERING, device=torch.device("cpu"))
    return ours, theirs.get_accuracy(*arguments, **options)


@pytest.mark.parametrize("k", [None, "max_bin_count", 1, 5, 30])
@pytest.mark.parametrize("averages", [{}, {"avg_of_avgs": True}, {"return_per_class": True}])
def test_values_equal_those_of_the_real_library(k, averages):
    for seed in range(3):
        rows, labels = table(seed)
        other_rows, other_labels = table(seed + 10, count=45, classes=6)
        calls: tuple[Any, ...] = (
            ((rows, labels), {}),
            ((rows, labels, other_rows, other_labels), {}),
            ((rows[:25], labels[:25], rows, labels), {"ref_includes_query": True}),
        )
        for arguments, options in calls:
            ours, theirs = both({"k": k, **averages}, *arguments, **options)
            assert list(ours) == list(theirs) == list(RETRIEVAL)
            for name, value in ours.items():
                # The real library computes the reciprocal rank in float32.
                assert value == pytest.approx(theirs[name], abs=1e-6 if "reciprocal" in name else 1e-12), name


def test_metrics_are_chosen_as_in_the_real_library():
    rows, labels = table(1)
    choices = ((), ("precision_at_1", "r_precision"), ("r_precision", "NMI"))
    for include, exclude in itertools.product(choices, choices):
        ours = AccuracyCalculator(include=include, exclude=exclude).get_accuracy(rows, labels, exclude=("AMI",))
        theirs = TheirCalculator(include=include, exclude=exclude, kmeans_func=lambda x, _: torch.zeros(len(x)))
        assert list(ours) == list(theirs.get_accuracy(rows, labels, exclude=("AMI",)))


def test_clustering_scores_are_those_of_our_own_clusters():
    # k-means of another library starts elsewhere, so only the scores of the same clusters can be compared.
    rows, labels = table(2)
    clusters = KMeans()(read_directions(rows), 8).assignment
    found = AccuracyCalculator(include=CLUSTERING).get_accuracy(rows, labels)
    assert found["NMI"] == pytest.approx(normalized_mutual_info_score(labels, clusters), abs=1e-12)
    assert found["AMI"] == pytest.approx(adjusted_mutual_info_score(labels, clusters), abs=1e-12)


def test_arrays_texts_and_other_lengths_are_read_like_tensors():
    rows, labels = table(3)
    calculator = AccuracyCalculator(exclude=CLUSTERING)
    expected = calculator.get_accuracy(rows, labels)
    names = [f"class {label}" for label in labels]
    assert calculator.get_accuracy(rows.double().numpy(), names) == expected
    assert calculator.get_accuracy(2 * rows, labels.numpy()) == expected
    included = calculator.get_accuracy(rows[:9], names[:9], rows, names, ref_includes_query=True)
    assert included == calculator.get_accuracy(rows[:9], labels[:9], rows, labels, ref_includes_query=True)


def test_without_any_positive_everything_is_nan():
    for settings in ({}, {"return_per_class": True}):
        ours, theirs = both(settings, torch.eye(4), torch.arange(4), torch.eye(4)[:2], torch.tensor([7, 8]))
        for name in RETRIEVAL:
            assert np.shape(ours[name]) == np.shape(theirs[name])
            assert np.isnan(ours[name]).all()
    assert np.isnan(AccuracyCalculator().get_accuracy(torch.eye(3), [0, 1, 2])["precision_at_1"])


def test_a_collapsed_table_scores_at_chance():
    found = AccuracyCalculator(exclude=CLUSTERING).get_accuracy(torch.ones(12, 3), torch.arange(12) // 3)
    assert found["precision_at_1"] == found["r_precision"] == pytest.approx(2 / 11, abs=1e-12)


def test_both_calculators_take_the_same_arguments():
    for ours, theirs in (
        (AccuracyCalculator, TheirCalculator),
        (AccuracyCalculator.get_accuracy, TheirCalculator.get_accuracy),
    ):
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)


@pytest.mark.parametrize("name", ["label_comparison_fn", "knn_func", "kmeans_func"])
def test_functions_of_the_user_are_refused(name):
    with pytest.raises(ConfigError, match=f"AccuracyCalculator: {name} is not supported"):
        AccuracyCalculator(**{name: torch.eq})  # type: ignore[arg-type] # a wrong argument on purpose


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"include": ("precision_at_2",)}, "unknown metric 'precision_at_2'; did you mean 'precision_at_1'"),
        ({"exclude": "NMI"}, "exclude must be a tuple of names; got 'NMI'"),
        ({"k": 0}, "k must be an integer >= 1; got 0"),
        ({"k": "all"}, "k must be an integer >= 1; got 'all'"),
        ({"avg_of_avgs": True, "return_per_class": True}, "exclude each other"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        AccuracyCalculator(**settings)


def test_wrong_tables_are_refused():
    rows, labels = table(0)
    calculator = AccuracyCalculator(exclude=CLUSTERING)
    with pytest.raises(BatchError, match="must be passed together"):
        calculator.get_accuracy(rows, labels, rows)
    with pytest.raises(BatchError, match="must begin with the queries"):
        calculator.get_accuracy(rows[1:5], labels[1:5], rows, labels, ref_includes_query=True)
    with pytest.raises(BatchError, match="must begin with the queries"):
        calculator.get_accuracy(rows[:5], labels[:5] + 1, rows, labels, ref_includes_query=True)
    with pytest.raises(BatchError, match="must have equal lengths"):
        calculator.get_accuracy(rows * torch.linspace(1, 2, 60)[:, None], labels)
