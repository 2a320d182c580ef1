"""Curves over a ladder: against slow loops, and what becomes of cells that are not there."""

import csv
import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from tests.helpers.laddered_content import DISTANCES, METHODS, is_missing, ladder_content, rung_row, slow_area, without
from tests.helpers.synthetic_content import make_content
from unseen.analyses.shift.capacity import capacity
from unseen.analyses.shift.ladder_results import ladder_results
from unseen.reports import Content, build_report, terminal_table, write_tables
from unseen.studies.results.ranking import rankings

UNTRAINED = "untrained features"


@pytest.fixture(scope="module")
def content():
    return ladder_content()


@pytest.fixture(scope="module")
def ladder(content):
    (found,) = ladder_results(content)
    return found


def curve_of(ladder, method):
    return next(curve for curve in ladder.curves if curve.method == method)


def texts(content, width=200):
    console = Console(width=width, file=io.StringIO(), record=True)
    for part in terminal_table(content, width):
        console.print(part)
    return console.export_text()


def test_means_spread_and_aggregates_are_those_of_a_slow_loop(content, ladder):
    for method in (*METHODS, UNTRAINED):
        curve = curve_of(ladder, method)
        by_seed: dict[int, list[float]] = {}
        for rung, name in enumerate(measured.split for measured in ladder.rungs):
            own = [row for row in content.rows if (row.method, row.split) == (method, name)]
            values = [row.scores["map@r"] for row in own]
            mean = sum(values) / len(values)
            assert curve.means("map@r")[rung] == pytest.approx(mean)
            low, high = curve.intervals("map@r")[rung]
            assert (low, high) == pytest.approx((mean - 0.025, mean + 0.024))
            for row in own:
                by_seed.setdefault(row.seed, []).append(row.scores["map@r"])
        areas = [slow_area(DISTANCES, values) for _, values in sorted(by_seed.items())]
        found = curve.aggregated("map@r", DISTANCES)
        assert found.values == pytest.approx(areas)
        middle = sum(areas) / len(areas)
        assert found.mean == pytest.approx(middle)
        if len(areas) > 1:
            expected = math.sqrt(sum((area - middle) ** 2 for area in areas) / len(areas))
            assert found.deviation == pytest.approx(expected)
        assert curve.aggregated_interval("map@r", DISTANCES) == pytest.approx((middle - 0.025, middle + 0.024))


def test_ranks_changes_and_shares_are_those_of_a_slow_loop(ladder):
    histories = ladder.rank_histories("recall@1")
    means = [curve.means("recall@1") for curve in ladder.curves]
    assert len(histories) == len(means) == len(METHODS) + 1
    for place, own in enumerate(means):
        ranks = [1 + sum(other[rung] > own[rung] for other in means) for rung in range(9)]
        assert histories[place].ranks == pytest.approx(ranks)
        assert histories[place].changes == pytest.approx([ranks[i] - ranks[i + 1] for i in range(8)])
        for rung in range(9):
            mean = sum(other[rung] for other in means) / len(means)
            assert histories[place].shares[rung] == pytest.approx((own[rung] - mean) / mean)


def test_less_is_better_turns_the_ranks(ladder):
    up, down = ladder.rank_histories("recall@1"), ladder.rank_histories("uniformity")
    # uniformity falls by what recall rises, and less of it is better
    assert {place: history.ranks for place, history in up.items()} == {
        place: history.ranks for place, history in down.items()
    }


def test_rungs_are_ordered_by_distance_whatever_the_order_of_rows(content, ladder):
    (turned,) = ladder_results(replace(content, rows=list(reversed(content.rows))))
    assert turned.rungs == ladder.rungs
    assert turned.distances() == sorted(DISTANCES)
    assert turned.distances("sample") == pytest.approx([distance / 2 + 3 for distance in DISTANCES])
    assert [curve.method for curve in turned.curves] == [curve.method for curve in ladder.curves]
    assert turned.curves[-1].method == UNTRAINED


def test_a_method_without_a_rung_has_a_gap_and_neither_aggregate_nor_rank(content):
    lacking = without(content, lambda row: row.method == "triplet" and row.split == "rung 4")
    (ladder,) = ladder_results(lacking)
    curve = curve_of(ladder, "triplet")
    assert [is_missing(mean) for mean in curve.means("recall@1")] == [rung == 3 for rung in range(9)]
    assert curve.aggregated("recall@1", ladder.distances()).values == ()
    assert curve.aggregated_interval("recall@1", ladder.distances()) is None
    histories = ladder.rank_histories("recall@1")
    assert ladder.curves.index(curve) not in histories
    assert max(rank for history in histories.values() for rank in history.ranks) == len(METHODS)
    page = build_report(lacking)
    assert "as a rung is missing" in page
    assert "–" in texts(lacking)


def test_a_seed_that_lacks_a_rung_is_left_out_of_the_aggregate(content):
    (ladder,) = ladder_results(
        without(content, lambda row: (row.method, row.split, row.seed) == ("margin", "rung 2", 1))
    )
    whole = curve_of(ladder_results(content)[0], "margin").aggregated("recall@1", DISTANCES).values
    assert curve_of(ladder, "margin").aggregated("recall@1", DISTANCES).values == (whole[0], whole[2])


def test_a_score_that_is_not_finite_is_a_gap(content):
    rows = [
        replace(row, scores={**row.scores, "recall@1": math.nan}) if row.method == "margin" else row
        for row in content.rows
    ]
    (ladder,) = ladder_results(replace(content, rows=rows))
    assert not curve_of(ladder, "margin").is_complete("recall@1")
    assert "Score against distance" in build_report(replace(content, rows=rows))


@pytest.mark.parametrize("rungs", [[4], []], ids=["one rung", "no rung"])
def test_fewer_than_two_rungs_are_no_ladder(rungs, tmp_path):
    content = ladder_content(rungs=rungs)
    assert ladder_results(content) == ()
    assert 'id="shift"' not in build_report(content)
    assert {path.name for path in write_tables(content, tmp_path)} == {"ranking.csv", "ranking.md", "ranking.tex"}


def test_a_study_without_a_ladder_has_no_such_section(demo_report):
    assert 'id="shift"' not in demo_report
    assert 'href="#shift"' not in demo_report
    assert 'id="transfer"' not in demo_report
    assert ladder_results(make_content(fonts=3, queries=4)) == ()


def test_one_method_on_two_rungs_has_a_curve_and_no_ranks():
    content = ladder_content(rungs=[0, 8], methods=["margin"], seeds=[0], untrained=False)
    (ladder,) = ladder_results(content)
    assert ladder.rank_histories("recall@1") == {}
    page = build_report(content)
    assert 'id="shift"' in page
    assert "Ranks from rung to rung" not in page


def test_ladders_and_data_sets_are_kept_apart():
    rows = [
        rung_row("margin", 0, rung, data=data, ladder=ladder)
        for data, ladder in (("birds", "aa"), ("birds", "bb"), ("cars", "aa"))
        for rung in (0, 1)
    ]
    # The same split label of one data set cannot be a rung of two ladders, so the second ladder has other labels.
    rows = [
        replace(row, split=f"other {row.split}") if row.protocol["split"]["ladder"] == "bb" else row for row in rows
    ]
    found = ladder_results(Content(title="t", version="0", rows=rows))
    assert [(ladder.data, ladder.ladder, len(ladder.rungs)) for ladder in found] == [
        ("birds", "aa", 2),
        ("birds", "bb", 2),
        ("cars", "aa", 2),
    ]


def test_unlike_protocols_are_drawn_and_not_ranked(content):
    rows = [
        replace(row, protocol={**row.protocol, "epochs": 99}) if row.method == "margin" else row for row in content.rows
    ]
    unlike = replace(content, rows=rows)
    (ladder,) = ladder_results(unlike)
    assert [difference.path for difference in ladder.differences] == [("epochs",)]
    assert ladder.rank_histories("recall@1") == {}
    page = build_report(unlike)
    assert "methods were run under different protocols" in page
    assert "Ranks from rung to rung" not in page


def test_the_page_says_seeds_and_classes_apart_and_folds_the_tables_of_rungs(content):
    page = build_report(content)
    assert page == build_report(ladder_content())
    section = page.split('<section id="shift">')[1].split("</section>")[0]
    assert "<b>of the seeds</b>" in section
    assert "<b>other classes</b>" in section
    assert section.count('class="band') == len(METHODS) + 1
    assert page.count('<article class="folded">') == len(rankings(content)) == 9
    assert 'id="splits"' not in page
    assert page.count('<p class="lede">') == 1
    best = ladder_results(content)[0].curves[0]
    lede = page.split('<p class="lede">')[1].split("</p>")[0]
    assert best.method in lede
    assert f"{100 * best.aggregated('recall@1', DISTANCES).mean:.1f} %" in lede
    assert UNTRAINED in lede


def test_the_tables_hold_every_score_method_and_rung(content, ladder, tmp_path):
    names = {path.name for path in write_tables(content, tmp_path)}
    assert names >= {"generalisation.csv", "aggregated.csv", "structure.csv"}
    rungs = list(csv.DictReader(io.StringIO((tmp_path / "generalisation.csv").read_text())))
    assert len(rungs) == 5 * (len(METHODS) + 1) * 9
    one = next(r for r in rungs if (r["score"], r["method"], r["rung"]) == ("map@r", "softmax", "rung 3"))
    place = [curve.method for curve in ladder.curves].index("softmax")
    assert float(one["mean"]) == ladder.curves[place].means("map@r")[2]
    assert float(one["rank"]) == ladder.rank_histories("map@r")[place].ranks[2]
    assert float(one["rank change"]) == ladder.rank_histories("map@r")[place].changes[1]
    assert float(one["distance of class means"]) == DISTANCES[2]
    assert next(r for r in rungs if r["rung"] == "rung 1")["rank change"] == ""
    aggregated = list(csv.DictReader(io.StringIO((tmp_path / "aggregated.csv").read_text())))
    assert len(aggregated) == 5 * (len(METHODS) + 1)
    own = next(r for r in aggregated if (r["score"], r["method"]) == ("recall@1", UNTRAINED))
    assert own["standard deviation"] == ""
    assert own["seeds"] == "1"
    assert own["trained"] == "no"


def test_the_terminal_shows_one_table_for_all_rungs(content, ladder):
    wide, narrow = texts(content, 200), texts(content, 80)
    assert "1: 19.2" in wide
    assert "5: 92.5" in wide
    assert "1: 19.2" in narrow
    assert "9: 174" in narrow
    assert "rung 3" not in wide
    assert max(map(len, narrow.splitlines())) <= 80
    best = ladder.curves[0]
    assert f"{100 * best.aggregated('recall@1', DISTANCES).mean:.1f} ±" in narrow


def test_some_rungs_of_a_ladder_keep_their_numbers():
    content = ladder_content(rungs=[0, 4, 8])
    said = texts(content, 120)
    for head in ("1: 19.2", "5: 92.5", "9: 174"):
        assert head in said
    page = build_report(content)
    assert "rung 9: rung 9, distance 173.9" in page
    assert '>9<small class="distance">174</small>' in page
    assert "rung 3" not in page


def backbones():
    rows = [
        replace(rung_row(method, seed, rung, model=model), method=f"{method}, {model}")
        for model in ("lite0", "resnet")
        for method in ("margin", "softmax")
        for seed in (0, 1)
        for rung in range(4)
    ]
    rows += [rung_row("alone", 0, rung, model="lite0") for rung in range(4)]
    rows += [rung_row("plain", 0, rung, model="resnet", is_trained=False) for rung in range(4)]
    return ladder_content(rows=rows)


def test_a_backbone_is_the_mean_of_the_methods_that_all_backbones_have():
    content = backbones()
    (ladder,) = ladder_results(content)
    lite, resnet = capacity(ladder, "recall@1")
    assert (lite.name, resnet.name, lite.methods) == ("lite0", "resnet", 2)
    for found in (lite, resnet):
        for rung in range(4):
            means = []
            for method in ("margin", "softmax"):
                own = [
                    row.scores["recall@1"]
                    for row in content.rows
                    if (row.method, row.split) == (f"{method}, {found.name}", f"rung {rung + 1}")
                ]
                means.append(sum(own) / len(own))
            assert found.trained[rung] == pytest.approx(sum(means) / 2)
    assert all(map(is_missing, lite.untrained))
    assert resnet.untrained == pytest.approx(curve_of(ladder, "plain").means("recall@1"))
    assert "a line for each backbone" in build_report(content)


def test_backbones_of_one_name_are_told_apart_by_the_settings_that_differ():
    rows = []
    for base in (8, 16):
        for rung in range(4):
            row = rung_row("margin", 0, rung)
            model = {"name": "convnet", "base": base, "channels": 1}
            rows.append(replace(row, method=f"width {base}", protocol={**row.protocol, "model": model}))
    (ladder,) = ladder_results(ladder_content(rows=rows))
    assert [each.name for each in capacity(ladder, "recall@1")] == ["convnet base=8", "convnet base=16"]


def test_one_backbone_is_no_comparison(ladder):
    assert capacity(ladder, "recall@1") == ()


GROUPS = ("mixed", "Latin", "<b>Armenian</b>", "Georgian")


def by_groups(content):
    """The content of a ladder whose steps are groups."""
    rows = []
    for row in content.rows:
        own = row.protocol["split"]
        split = {**own, "by": "groups", "step": GROUPS[own["rung"] - 1]}
        rows.append(replace(row, protocol={**row.protocol, "split": split}))
    return replace(content, rows=rows)


def test_rungs_that_are_groups_are_called_by_their_names():
    content = by_groups(ladder_content(rungs=range(4)))
    (ladder,) = ladder_results(content)
    assert ladder.is_by_groups
    assert [rung.group for rung in ladder.rungs] == list(GROUPS)
    page = build_report(content)
    assert "(distance 19.2) to" in page
    assert "the group whose classes are tested" in page
    assert "rungs are numbered at the top" not in page
    assert "<b>Armenian" not in page
    assert page.count("Georgian") > 5
    said = texts(content)
    assert "birds / ladder by groups: recall@1" in said
    assert "Georgian" in said


def test_rungs_of_a_walk_keep_their_numbers(content):
    (ladder,) = ladder_results(content)
    assert not ladder.is_by_groups
    assert "rungs are numbered at the top" in build_report(content)


def test_a_ladder_beside_tables_of_its_own_follows_them():
    own = make_content(fonts=3, queries=4)
    both = replace(own, rows=[*own.rows, *ladder_content(rungs=range(4)).rows])
    for content, is_first in ((both, False), (ladder_content(rungs=range(4)), True)):
        page = build_report(content)
        assert page.count('id="shift"') == page.count('href="#shift"') == 1
        assert (page.index('id="shift"') < page.index('id="ranking"')) is is_first
        assert (page.index('href="#shift"') < page.index('href="#ranking"')) is is_first
    page = build_report(both)
    assert page.index("ranks an item of the right class first") < page.index("scores best")
