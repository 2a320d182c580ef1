"""Rankings against plain loops, and what keeps different protocols apart."""

import math
import statistics
from dataclasses import replace

import pytest

from tests.helpers.synthetic_content import METHODS, make_row
from unseen.reports import Content
from unseen.studies.results.content import MAY_DIFFER
from unseen.studies.results.ranking import Summary, are_percentages, differences, rankings, unseparated_rankings


def content(rows, **changes):
    return Content(title="t", version="0", rows=rows, **changes)


def test_mean_and_deviation_equal_those_of_the_statistics_module(demo_content):
    for table in rankings(demo_content):
        for entry in table.entries:
            rows = [r for r in demo_content.rows if (r.split, r.method) == (table.split, entry.method)]
            for score in table.scores:
                values = [row.scores[score] for row in rows]
                assert entry.summary(score).mean == pytest.approx(statistics.fmean(values), rel=1e-12)
                if len(values) > 1:
                    assert entry.summary(score).deviation == pytest.approx(statistics.pstdev(values), rel=1e-12)


def test_methods_are_ranked_by_the_main_score_and_untrained_rows_have_no_rank(demo_content):
    for table in rankings(demo_content):
        means = [entry.summary("recall@1").mean for entry in table.trained]
        assert means == sorted(means, reverse=True)
        assert [entry.rank for entry in table.trained] == [1, 2, 3, 4]
        assert {entry.method for entry in table.trained} == set(METHODS)
        assert [entry.rank for entry in table.untrained] == [None, None]
        assert table.differences == ()


def test_less_is_better_where_it_is_said(demo_content):
    tables = rankings(replace(demo_content, lower_is_better=("recall@1",)))
    means = [entry.summary("recall@1").mean for entry in tables[0].trained]
    assert means == sorted(means)
    assert tables[0].best["recall@1"] == means[0]


def test_equal_means_share_a_rank():
    row = make_row("characters", "contrastive", 0)
    rows = [row, replace(row, method="b"), replace(row, method="c", scores={"recall@1": 0.1})]
    assert [entry.rank for entry in rankings(content(rows))[0].trained] == [1, 1, 3]


def test_one_seed_has_no_deviation():
    entry = rankings(content([make_row("characters", "contrastive", 0)]))[0].trained[0]
    assert entry.summary("recall@1").deviation is None
    assert entry.summary("recall@1").texts(percent=True)[1] == "–"
    assert entry.summary("unknown").texts(percent=True) == ("–", "–")


def test_a_value_that_is_not_finite_is_not_hidden_in_a_mean():
    assert math.isnan(Summary((0.5, math.nan)).mean)
    row = make_row("characters", "contrastive", 0)
    broken = replace(row, method="broken", scores={"recall@1": math.inf})
    table = rankings(content([broken, row]))[0]
    assert [(entry.method, entry.rank) for entry in table.trained] == [("contrastive", 1), ("broken", None)]
    assert table.trained[1].summary("recall@1").texts(percent=True) == ("not finite", "–")
    assert table.best == {score: value for score, value in row.scores.items() if score in table.best}


def test_without_the_main_score_the_first_one_ranks():
    table = rankings(content([make_row("characters", "contrastive", 0)], main_score="absent"))[0]
    assert table.main_score == "recall@1"


def test_a_score_outside_zero_to_one_is_no_percentage():
    row = replace(make_row("characters", "contrastive", 0), scores={"recall@1": 0.5, "fid": 12.0})
    assert are_percentages(content([row])) == {"recall@1": True, "fid": False}


def with_pretraining(row, images):
    return replace(row, protocol={**row.protocol, "pretraining": images})


def test_rows_of_different_pretraining_are_never_in_one_ranking():
    methods = [("contrastive", "ImageNet-1k"), ("proxy-anchor", "LVD-142M"), ("multi-similarity", "ImageNet-1k")]
    rows = [with_pretraining(make_row("characters", method, 0), images) for method, images in methods]
    untrained = replace(rows[1], method="untrained", is_trained=False)
    one, two = rankings(content([*rows, untrained]))
    assert {entry.method for entry in one.entries} == {"contrastive", "multi-similarity"}
    assert [entry.rank for entry in one.trained] == [1, 2]
    assert [(entry.method, entry.rank) for entry in two.entries] == [("proxy-anchor", 1), ("untrained", None)]
    assert (one.why_apart, two.why_apart) == (
        "Backbones pretrained on ImageNet-1k",
        "Backbones pretrained on LVD-142M",
    )
    (same,) = rankings(content(rows[::2]))
    assert same.why_apart == ""


def test_curves_of_different_pretraining_may_be_in_one_picture_but_have_no_ranks():
    rows = [with_pretraining(make_row("characters", "contrastive", 0), "ImageNet-1k")]
    rows.append(with_pretraining(replace(rows[0], method="untrained", is_trained=False), "LVD-142M"))
    (table,) = unseparated_rankings(content(rows))
    assert [difference.path for difference in table.differences] == [("pretraining",)]
    assert [entry.rank for entry in table.entries] == [None, None]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"epochs": 9}, ("epochs",)),
        ({"batch": {"size": 64, "per class": 4}}, ("batch", "size")),
        ({"split": {"name": "characters", "fingerprint": "zz"}}, ("split", "fingerprint")),
        ({"new": None}, ("new",)),
    ],
)
def test_unlike_protocols_are_not_ranked_and_the_field_is_named(change, path):
    row, other = make_row("characters", "contrastive", 0), make_row("characters", "proxy-anchor", 0)
    other = replace(other, protocol={**other.protocol, **change})
    table = rankings(content([row, other]))[0]
    named = {difference.path: dict(difference.values) for difference in table.differences}
    assert path in named
    assert ("contrastive",) in named[path].values()
    assert ("proxy-anchor",) in named[path].values()
    assert [entry.rank for entry in table.trained] == [None, None]
    assert table.best == {}


def test_unlike_score_definitions_and_counts_are_differences_too():
    row, other = make_row("characters", "contrastive", 0), make_row("characters", "proxy-anchor", 0)
    other = replace(other, definitions={**row.definitions, "recall@1": "something else"}, counts={"queries": 1})
    paths = {difference.path for difference in differences([row, other], MAY_DIFFER)}
    assert paths >= {("definitions", "recall@1"), ("counts", "queries")}


def test_method_loss_and_seed_may_differ():
    rows = [make_row("characters", method, seed) for method in METHODS for seed in (0, 1)]
    assert differences(rows, MAY_DIFFER) == ()
    assert {d.path for d in differences(rows, ())} == {("seed",), ("loss", "name")}


def test_an_untrained_row_is_held_only_to_what_is_measured():
    row = make_row("characters", "contrastive", 0)
    raw = make_row("characters", "raw pixels", 0, is_trained=False)
    assert differences([row, raw], MAY_DIFFER) == ()
    elsewhere = replace(raw, protocol={**raw.protocol, "split": {"fingerprint": "zz"}})
    assert [d.path for d in differences([row, elsewhere], MAY_DIFFER)] == [("split", "fingerprint")]


def test_a_difference_of_one_seed_names_that_seed():
    rows = [make_row("characters", method, seed) for method in ("contrastive", "proxy-anchor") for seed in (0, 1)]
    rows[1] = replace(rows[1], protocol={**rows[1].protocol, "epochs": 9})
    (found,) = differences(rows, MAY_DIFFER)
    assert found.values == (("8", ("contrastive seed 0", "proxy-anchor")), ("9", ("contrastive seed 1",)))
