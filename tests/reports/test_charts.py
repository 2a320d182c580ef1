"""Charts: the geometry says what the numbers say."""

import math
from dataclasses import replace

import pytest

from tests.helpers.svg_charts import shapes, tick_labels
from tests.helpers.synthetic_content import make_row
from unseen.reports import Content
from unseen.reports.charts import curve, curve_chart, mean_curve, score_bar, score_chart
from unseen.studies.results.ranking import rankings


def test_the_mean_curve_is_the_mean_where_all_seeds_are():
    assert mean_curve([[(1, 0.0), (2, 1.0), (3, 5.0)], [(1, 1.0), (2, 2.0)]]) == [(1, 0.5), (2, 1.5)]
    assert mean_curve([]) == []


def test_curves_go_over_steps_where_epochs_repeat():
    history = [{"epoch": 1, "step": step, "loss": 1.0 / step} for step in (10, 20)]
    row = replace(make_row("characters", "contrastive", 0), history=history)
    assert curve([row], "loss") == [[(10.0, 0.1), (20.0, 0.05)]]
    assert curve([row], "recall@1") == []


def test_curves_without_a_finite_point_are_not_drawn():
    assert curve_chart({"m": [[(1.0, math.nan)]]}, {"m": 0}, "w", percent=True) is None
    assert curve_chart({}, {}, "w", percent=True) is None
    assert curve_chart({"m": [[(1.0, 0.5)]]}, {"m": 0}, "w", percent=True) is not None


def test_a_chart_has_a_mark_for_every_seed_and_mean_in_place(demo_content):
    tables = rankings(demo_content)
    chart = score_chart(tables, percent=True)
    assert len(shapes(chart, "seed")) == len(demo_content.rows)
    assert len(shapes(chart, "mean")) == sum(len(table.entries) for table in tables)
    assert len(shapes(chart, "join")) == 6
    names = [shape.text for shape in shapes(chart, "method")]
    assert names[-2:] == [shape.text for shape in shapes(chart) if shape.role == "method apart"]


def test_marks_stand_where_the_axis_says():
    rows = [
        replace(make_row("characters", "contrastive", 0), method=f"method {value}", scores={"recall@1": value})
        for value in (0.2, 0.4, 0.8)
    ]
    chart = score_chart(rankings(Content(title="t", version="0", rows=rows)), percent=True)
    at = {shape.text: float(shape.attributes["x"]) for shape in shapes(chart) if shape.text.endswith(" %")}
    for mark in shapes(chart, "mean"):
        value = float(mark.tip.rpartition(" ")[2])
        assert float(mark.attributes["cx"]) == pytest.approx(at[f"{value:g} %"], abs=0.1)


def test_the_bar_of_the_best_seed_reaches_the_end(demo_content):
    entry = rankings(demo_content)[0].trained[0]
    highest = max(entry.summary("recall@1").values)
    chart = score_bar(entry, "recall@1", highest, percent=True)
    assert any(dot.attributes | {"cx": "158", "cy": "9"} == dot.attributes for dot in shapes(chart, "seed"))
    assert score_bar(entry, "absent", highest, percent=True) is None


def test_negative_scores_have_no_bar_but_a_chart():
    rows = [replace(make_row("characters", "contrastive", seed), scores={"recall@1": -0.5}) for seed in (0, 1)]
    table = rankings(Content(title="t", version="0", rows=rows))[0]
    assert score_bar(table.trained[0], "recall@1", 1.0, percent=False) is None
    assert score_chart([table], percent=False) is not None


@pytest.mark.parametrize("value", [0.0, 0.02, 0.818, 0.99, 1.0])
def test_the_axis_of_equal_percentages_stays_between_0_and_100(value):
    rows = [replace(make_row("characters", "contrastive", seed), scores={"recall@1": value}) for seed in (0, 1)]
    chart = score_chart(rankings(Content(title="t", version="0", rows=rows)), percent=True)
    marks = [float(text.removesuffix(" %")) for text in tick_labels(chart, "middle")]
    assert 0 <= marks[0] <= 100 * value <= marks[-1] <= 100
    assert len(marks) >= 2


def test_a_single_number_is_no_chart():
    rows = [make_row("characters", "contrastive", 0)]
    assert score_chart(rankings(Content(title="t", version="0", rows=rows)), percent=True) is None


def test_a_flat_curve_of_a_percentage_stays_below_one_hundred():
    chart = curve_chart({"flat": [[(1.0, 0.975), (2.0, 0.975)]]}, {"flat": 0}, "words", percent=True)
    levels = [float(text) for text in tick_labels(chart, "end")]
    assert 90 < levels[0] <= 97.5 <= levels[-1] <= 100
