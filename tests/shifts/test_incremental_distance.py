"""Distances along a path equal those computed afresh, and known ones where classes are made by hand."""

import numpy as np
import pytest

from tests.helpers.two_groups import gaussian_catalogue
from unseen.evaluation.frechet import frechet_distance
from unseen.shifts.class_swaps import ClassSplit, swap_classes
from unseen.shifts.incremental_distance import ClassSplitDistances


def afresh(features, labels, sides):
    train, test = (np.isin(labels, side) for side in sides)
    means = np.stack([features[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    return {
        "class": frechet_distance(means[sides.train], means[sides.test]),
        "sample": frechet_distance(features[train], features[test]),
    }


def both(distances, sides):
    return {level: distances.between(sides, level) for level in ("class", "sample")}


@pytest.mark.parametrize("width", [3, 30])
def test_distances_along_a_path_are_those_computed_afresh(width):
    catalogue = gaussian_catalogue(width=width)
    features, labels = catalogue.reader.features.astype(np.float64), catalogue.labels
    distances = ClassSplitDistances(features, labels)
    start = ClassSplit(np.arange(20), np.arange(20, 40))
    path = list(swap_classes(distances.means, start, swaps=2, iterations=8, history=5))
    # Steps in both directions, a jump, and classes that go for good.
    for sides in [*path, path[0], ClassSplit(path[3].train[4:], path[3].test[2:])]:
        assert both(distances, sides) == pytest.approx(afresh(features, labels, sides), rel=1e-9)


def test_classes_that_differ_by_a_shift_alone_are_at_its_square():
    # The same cloud for every class, and the same pattern of classes on both sides, 3 and 4 apart along two axes.
    generator = np.random.default_rng(0)
    cloud, pattern = generator.normal(size=(30, 5)), generator.normal(size=(10, 5))
    centres = np.concatenate([pattern, pattern + np.array([3, 4, 0, 0, 0])])
    labels = np.repeat(np.arange(20), 30)
    features = centres[labels] + np.tile(cloud, (20, 1))
    found = both(ClassSplitDistances(features, labels), ClassSplit(np.arange(10), np.arange(10, 20)))
    assert found == pytest.approx({"class": 25, "sample": 25}, abs=1e-9)


def test_classes_that_differ_by_spread_alone_are_at_the_difference_of_their_deviations():
    # Isotropic class means of deviation a and b in d dimensions: d (a - b)^2.
    dimensions, one, two = 4, 1.0, 3.0
    corners = np.concatenate([np.eye(dimensions), -np.eye(dimensions)]) * np.sqrt((2 * dimensions - 1) / 2)
    means = np.concatenate([one * corners, two * corners])
    labels = np.arange(len(means))
    found = ClassSplitDistances(means, labels).between(
        ClassSplit(labels[: len(corners)], labels[len(corners) :]), "class"
    )
    assert found == pytest.approx(dimensions * (one - two) ** 2, abs=1e-9)


def test_a_class_split_against_itself_is_at_zero():
    catalogue = gaussian_catalogue()
    same = np.arange(20)
    found = both(ClassSplitDistances(catalogue.reader.features, catalogue.labels), ClassSplit(same, same.copy()))
    assert found == pytest.approx({"class": 0, "sample": 0}, abs=1e-9)


def test_rows_of_classes_are_found_in_any_order_of_the_labels():
    catalogue = gaussian_catalogue()
    features, labels = catalogue.reader.features, catalogue.labels
    order = np.random.default_rng(0).permutation(len(labels))
    sides = ClassSplit(np.array([30, 2, 17, 11, 5, 8]), np.array([1, 39, 20]))
    shuffled = both(ClassSplitDistances(features[order], labels[order]), sides)
    assert shuffled == pytest.approx(afresh(features.astype(np.float64), labels, sides), rel=1e-6)
