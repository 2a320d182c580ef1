"""The look of figures: ticks, label positions, series styles, and the palette that figures share with the page."""

import re
from importlib.resources import files
from itertools import pairwise

import pytest

from unseen.figures.style import label, panels, render_png, series_style, spread_labels, ticks
from unseen.figures.svg import VARIABLES


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.31, 0.53), (-3, 4), (1e-7, 2e-7), (5, 5), (0, 0), (0, 123456)])
def test_ticks_enclose_the_range_in_round_even_steps(low, high):
    locations = ticks(low, high)
    assert locations[0] <= low
    assert locations[-1] >= high
    assert 2 <= len(locations) <= 9
    steps = [after - before for before, after in pairwise(locations)]
    assert max(steps) == pytest.approx(min(steps))


def test_labels_spread_without_leaving_the_range():
    moved = spread_labels([50, 50, 50, 51], 10, 0, 60)
    ordered = sorted(moved)
    assert all(after - before >= 10 - 1e-9 for before, after in pairwise(ordered))
    assert ordered[-1] <= 60


def test_series_repeat_colours_with_another_dash():
    assert len({series_style(position) for position in range(18)}) == 18


def test_the_palette_is_that_of_the_page():
    sheet = files("unseen.reports").joinpath("report.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", sheet.partition("@media")[0]))
    dark = dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", sheet.partition("@media")[2]))
    assert {name: light[name] for name in VARIABLES.values()} == {name: colour for colour, name in VARIABLES.items()}
    assert set(VARIABLES.values()) <= set(dark)


def test_equal_figures_have_equal_bytes_without_time_or_program():
    png = render_png(lambda: panels(1, 1, width=1, height=1)[0])
    assert png == render_png(lambda: panels(1, 1, width=1, height=1)[0])
    assert png.startswith(b"\x89PNG")
    assert b"matplotlib" not in png.lower()


def test_labels_are_one_short_line():
    assert label("a\nb") == "a␊b"
    assert len(label("long " * 20)) == 28
