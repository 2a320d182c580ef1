"""The bench of ladders measures what it says, on small data."""

import pytest

from bench import splits


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setitem(splits.SIZES, "cub200", splits.Size(1200, 200))


def test_a_ladder_is_built_and_its_cost_has_no_zero():
    cost = splits.measure("cub200", 8)
    assert cost.size == "cub200"
    assert min(cost[1:]) > 0
    assert "| cub200 | 8 |" in splits.table([cost])


def test_features_lie_in_clusters():
    catalogue = splits.catalogue_of("cub200", 16)
    features, labels = catalogue.reader.features, catalogue.labels
    within = features[labels == 0].std(axis=0).mean()
    assert features.std(axis=0).mean() > 1.3 * within
