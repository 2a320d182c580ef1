"""Charts: the geometry says what the numbers say."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.helpers.synthetic_content import make_row
from unseen.figures.drawing import line, mark, series, short, spread, ticks
from unseen.reports import Content
from unseen.reports.charts import Scale, curve, curve_chart, mean_curve, score_chart, strip
from unseen.studies.results.ranking import rankings


def test_a_scale_maps_its_ends_to_its_ends():
    scale = Scale(0.2, 0.6, 100, 300)
    assert [scale(0.2), scale(0.4), scale(0.6)] == pytest.approx([100, 200, 300])
    assert Scale(1, 1, 5, 9)(1) == 5


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.31, 0.53), (-3, 4), (1e-7, 2e-7), (5, 5), (0, 0), (0, 123456)])
def test_ticks_enclose_the_range_in_round_even_steps(low, high):
    found = ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    assert 2 <= len(found) <= 9
    steps = [after - before for before, after in pairwise(found)]
    assert max(steps) == pytest.approx(min(steps))


def test_labels_spread_without_leaving_the_range():
    moved = spread([50, 50, 50, 51], 10, 0, 60)
    ordered = sorted(moved)
    assert all(after - before >= 10 - 1e-9 for before, after in pairwise(ordered))
    assert ordered[-1] <= 60


def test_lines_break_at_what_is_not_finite():
    assert line([(0, 1), (1, 2), (2, math.nan), (3, 4), (4, 5)]) == "M0 1L1 2M3 4L4 5"
    assert line([(0, 1)]) == "M0 1h0"
    assert line([]) == ""
    assert short(-0.04) == "0"


def test_series_repeat_colours_with_another_dash():
    assert len({series(position) for position in range(18)}) == 18


def test_the_mean_curve_is_the_mean_where_all_seeds_are():
    assert mean_curve([[(1, 0.0), (2, 1.0), (3, 5.0)], [(1, 1.0), (2, 2.0)]]) == [(1, 0.5), (2, 1.5)]
    assert mean_curve([]) == []


def test_curves_go_over_steps_where_epochs_repeat():
    history = [{"epoch": 1, "step": step, "loss": 1.0 / step} for step in (10, 20)]
    row = replace(make_row("characters", "contrastive", 0), history=history)
    assert curve([row], "loss") == [[(10.0, 0.1), (20.0, 0.05)]]
    assert curve([row], "recall@1") == []


def test_curves_without_a_finite_point_are_not_drawn():
    assert curve_chart([("m", [[(1.0, math.nan)]])], {"m": 0}, "w", percent=True) is None
    assert curve_chart([], {}, "w", percent=True) is None
    assert curve_chart([("m", [[(1.0, 0.5)]])], {"m": 0}, "w", percent=True) is not None


def test_a_chart_has_a_mark_for_every_seed_and_mean_in_place(demo_content):
    tables = rankings(demo_content)
    drawing = score_chart(tables, percent=True)
    assert sum(path.css.startswith("seed") for path in drawing.paths) == len(demo_content.rows)
    means = [path for path in drawing.paths if path.css.startswith("mean")]
    assert len(means) == sum(len(table.entries) for table in tables)
    assert sum(path.css == "join" for path in drawing.paths) == 6
    names = [label.text for label in drawing.labels if label.css.startswith("method")]
    assert names[-2:] == [label.text for label in drawing.labels if label.css == "method apart"]


def test_the_bar_of_the_best_seed_reaches_the_end(demo_content):
    entry = rankings(demo_content)[0].trained[0]
    highest = max(entry.summary("recall@1").values)
    drawing = strip(entry, "recall@1", highest, percent=True)
    assert any(path.d == mark(158, 9, 3.2) for path in drawing.paths)
    assert strip(entry, "absent", highest, percent=True) is None


def test_negative_scores_have_no_bar_but_a_chart():
    rows = [replace(make_row("characters", "contrastive", seed), scores={"recall@1": -0.5}) for seed in (0, 1)]
    table = rankings(Content(title="t", version="0", rows=rows))[0]
    assert strip(table.trained[0], "recall@1", 1.0, percent=False) is None
    assert score_chart([table], percent=False) is not None


@pytest.mark.parametrize("value", [0.0, 0.02, 0.818, 0.99, 1.0])
def test_the_axis_of_equal_percentages_stays_between_0_and_100(value):
    rows = [replace(make_row("characters", "contrastive", seed), scores={"recall@1": value}) for seed in (0, 1)]
    drawing = score_chart(rankings(Content(title="t", version="0", rows=rows)), percent=True)
    marks = [float(label.text.removesuffix(" %")) for label in drawing.labels if label.css == "tick"]
    assert 0 <= marks[0] <= 100 * value <= marks[-1] <= 100
    assert len(marks) >= 2


def test_a_single_number_is_no_chart():
    rows = [make_row("characters", "contrastive", 0)]
    assert score_chart(rankings(Content(title="t", version="0", rows=rows)), percent=True) is None


def test_a_flat_curve_of_a_percentage_stays_below_one_hundred():
    drawing = curve_chart([("flat", [[(1.0, 0.975), (2.0, 0.975)]])], {"flat": 0}, "words", percent=True)
    levels = [float(label.text) for label in drawing.labels if label.css == "tick" and label.anchor == "end"]
    assert 90 < levels[0] <= 97.5 <= levels[-1] <= 100
