"""Paired comparison of two models on one test set."""

import numpy as np
import pytest

from unseen.core.errors import ConfigError
from unseen.evaluation import evaluate
from unseen.evaluation.comparison import average, compare
from unseen.evaluation.intervals import Bootstrap

LABELS = np.repeat(np.arange(30), 6)


def embeddings_of(noise, seed=0):
    generator = np.random.Generator(np.random.Philox(seed))
    centres = generator.normal(size=(30, 16))
    return centres[LABELS] + noise * generator.normal(size=(len(LABELS), 16))


def scored(noise, seed=0, **settings):
    return evaluate(embeddings_of(noise, seed), LABELS, scores="recall@1,map@r,nmi", **settings)


def test_a_model_does_not_differ_from_itself():
    found = compare(scored(1.5), scored(1.5))
    for difference in found.values():
        assert (difference.value, difference.low, difference.high, difference.against) == (0, 0, 0, 1)


def test_a_clearly_better_model_is_found_better():
    found = compare(scored(2.5), scored(1.0))
    for difference in found.values():
        assert difference.value > 0
        assert difference.low > 0
        assert difference.against < 0.05


def test_exchanging_the_models_turns_the_difference_round():
    one, two = scored(1.6), scored(1.4)
    there, back = compare(one, two), compare(two, one)
    for name, difference in there.items():
        assert back[name].value == -difference.value
        assert back[name].low == pytest.approx(-difference.high, abs=1e-12)
        assert back[name].against == difference.against


def test_pairing_is_sharper_than_two_intervals():
    one, two = scored(1.6), scored(1.5)
    difference = compare(one, two)["recall@1"]
    widths = [high - low for low, high in (one.intervals["recall@1"], two.intervals["recall@1"])]
    assert difference.high - difference.low < np.hypot(*widths)


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ConfigError, match="draws"):
        compare(scored(1.0, bootstrap=None), scored(1.0))
    with pytest.raises(ConfigError, match="do not share"):
        compare(scored(1.0), scored(1.0, bootstrap=Bootstrap(draws=50)))
    fewer = evaluate(embeddings_of(1.0), np.where(LABELS == 3, 4, LABELS), scores="recall@1")
    with pytest.raises(ConfigError, match="do not share"):
        compare(scored(1.0), fewer)
    with pytest.raises(ConfigError, match="not defined alike"):
        compare(scored(1.0), scored(1.0, empty="skip"))


def test_the_table_shows_both_models_and_the_difference():
    columns = [column.header for column in compare(scored(1.6), scored(1.4)).table().columns]
    assert columns == ["score", "first", "second", "difference", "95% interval", "against"]


def replicates_of(scores):
    assert scores.draws is not None
    return scores.draws.replicates


def test_the_average_of_a_run_alone_is_that_run():
    run = scored(1.5)
    found = average([run])
    assert dict(found) == dict(run)
    for name, replicates in replicates_of(run).items():
        np.testing.assert_array_equal(replicates_of(found)[name], replicates)


def test_averages_are_means_draw_by_draw_in_any_order():
    runs = [scored(noise, seed) for seed, noise in enumerate((1.2, 1.5, 1.9))]
    found, turned = average(runs), average(runs[::-1])
    for name in runs[0]:
        assert found[name] == turned[name] == pytest.approx(sum(run[name] for run in runs) / 3, rel=1e-12)
        for draw in range(0, 1000, 97):
            expected = sum(replicates_of(run)[name][draw] for run in runs) / 3
            assert replicates_of(found)[name][draw] == pytest.approx(expected, rel=1e-12)
        np.testing.assert_array_equal(replicates_of(found)[name], replicates_of(turned)[name])


def test_runs_on_different_test_sets_have_no_average():
    fewer = evaluate(embeddings_of(1.0), np.where(LABELS == 3, 4, LABELS), scores="recall@1")
    with pytest.raises(ConfigError, match="average: the two evaluations do not share"):
        average([scored(1.0), fewer])
    with pytest.raises(ConfigError, match="average: scores without draws"):
        average([scored(1.0, bootstrap=None)])
