"""Methods with and without a component are paired where they differ by nothing else."""

import pytest

from tests.helpers.made_methods import REGULARISATION, methods_from
from tests.helpers.made_studies import distance_loss
from unseen.analyses.spectral.ablations import (
    RHO_REGULARISATION,
    ablation_pairs,
    p_switch_of,
    without_mixup,
    without_switch,
)


def test_regularised_methods_are_paired_with_what_differs_by_the_miner_alone(tmp_path):
    methods = {**REGULARISATION, "R-margin, other": (distance_loss(p_switch=0.3, beta=0.6), "plain", 0.5, 0.7)}
    pairs = ablation_pairs(methods_from(tmp_path, methods), RHO_REGULARISATION)
    assert [(pair.without.name, pair.with_it.name) for pair in pairs] == [
        ("margin", "R-margin"),
        ("triplet", "R-triplet"),
    ]
    assert pairs[0].differences(lambda method: method.scores) == pytest.approx([0.05, 0.05])


def test_pairs_stay_on_their_split(tmp_path):
    pairs = ablation_pairs(methods_from(tmp_path, REGULARISATION, splits=("characters", "scripts")), RHO_REGULARISATION)
    assert len(pairs) == 4
    assert all(pair.without.benchmark == pair.with_it.benchmark for pair in pairs)


def test_a_miner_that_never_switches_is_the_plain_one():
    never, plain = ({"loss": distance_loss(p_switch=p)} for p in (0.0, None))
    assert without_switch(never) is None
    assert without_switch(plain) is None
    assert without_switch({"loss": distance_loss(p_switch=0.2)}) == plain
    assert p_switch_of({"loss": {"name": "robust", "of": distance_loss(p_switch=0.2)}}) == 0.2


def test_mixup_is_taken_away_without_touching_the_loss():
    config = {"loss": distance_loss(), "method": {"name": "mixup", "alpha": 2.0}}
    assert without_mixup(config) == {"loss": distance_loss(), "method": {"name": "plain"}}
    assert without_mixup({"loss": distance_loss(), "method": {"name": "plain"}}) is None
