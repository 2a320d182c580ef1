"""Inline SVG: small, themeable, escaped, the same bytes for the same figure."""

import math
import re
from itertools import pairwise

import pytest
from matplotlib import rc_context, rcParams
from matplotlib.typing import RcKeyType

from tests.helpers.svg_charts import STYLE, description, shapes
from tests.reports.hostile_strings import HOSTILE
from unseen.core.text import clean, cut, full, plain
from unseen.figures import plot
from unseen.figures.plot import SMALL, WIDE, Series
from unseen.figures.style import BLUE, SERIES, SeriesStyle, our_look
from unseen.figures.svg import to_svg


@our_look()
def chart_of(*, name="margin", points=((0.0, 0.0), (1.0, 1.0))):
    axes = plot.area(100 + SMALL.left + SMALL.right, 100 + SMALL.top + SMALL.bottom, SMALL)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    plot.line(axes, points, "line", SeriesStyle(BLUE), name)
    plot.marks(axes, points, "mean", BLUE, [f"{name} {x:g}" for x, _ in points])
    plot.text(axes, (10, 20), name, "end")
    return to_svg(axes, f"about {name}")


def test_the_ends_of_the_data_are_the_ends_of_the_plot_area():
    chart = chart_of(points=[(0.0, 0.0), (0.25, 0.5), (1.0, 1.0)])
    positions = [(float(mark.attributes["cx"]), float(mark.attributes["cy"])) for mark in shapes(chart, "mean")]
    assert positions == [(SMALL.left + 100 * x, SMALL.top + 100 * (1 - y)) for x, y in [(0, 0), (0.25, 0.5), (1, 1)]]
    assert [mark.tip for mark in shapes(chart, "mean")] == ["margin 0", "margin 0.25", "margin 1"]


def test_lines_break_at_values_that_are_not_finite():
    points = [(0.0, 0.0), (0.25, 0.5), (0.5, math.nan), (0.75, 0.5), (1.0, 1.0)]
    (line,) = shapes(chart_of(points=points), "line")
    assert line.attributes["d"] == "M36 108L61 58M111 58L136 8"
    assert len(shapes(chart_of(points=points), "mean")) == 4


def test_a_single_point_is_a_dot():
    dots = [shape for shape in shapes(chart_of(points=[(0.5, 0.5)]), "line") if shape.kind == "circle"]
    assert [(dot.attributes["cx"], dot.attributes["cy"]) for dot in dots] == [("86", "58")]


def test_colours_are_variables_of_the_style_sheet():
    chart = chart_of()
    assert "#" not in chart
    assert shapes(chart, "line")[0].style("stroke") == "var(--s0)"
    assert shapes(chart, "end")[0].style("fill") == "var(--ink)"


def test_only_shapes_texts_and_tips_get_through():
    chart = chart_of()
    assert set(re.findall(r"<([a-zA-Z]+)", chart)) == {"svg", "path", "circle", "text", "title"}
    assert set(re.findall(r" ([a-zA-Z-]+)=", chart)) == {
        *("class", "viewBox", "role", "aria-label", "d", "style", "cx", "cy", "r", "x", "y")
    }
    for declarations in re.findall(r'style="([^"]*)"', chart):
        assert STYLE.fullmatch(declarations), declarations


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text)[:30] for text in HOSTILE])
def test_hostile_strings_are_text_in_labels_tips_and_descriptions(text):
    chart = chart_of(name=text)
    assert shapes(chart, "end")[0].text == cut(plain(text), 26)
    assert shapes(chart, "line")[0].tip == full(clean(text))
    assert description(chart) == f"about {clean(text)}"
    assert set(re.findall(r"<([a-zA-Z!/]+)", chart)) <= {
        *("svg", "path", "circle", "text", "title"),
        *("/svg", "/path", "/circle", "/text", "/title"),
    }


def test_equal_figures_have_equal_bytes_whatever_settings_a_user_has():
    chart = chart_of()
    assert chart == chart_of()
    mine: dict[RcKeyType, object] = {"savefig.bbox": "tight", "lines.color": "red", "font.size": 30, "axes.grid": False}
    with rc_context(mine):
        assert chart == chart_of()
        assert rcParams["font.size"] == 30


def test_names_at_the_ends_of_lines_do_not_cover_each_other():
    every = [Series(f"method {n}", SeriesStyle(SERIES[n]), [(0, 0.5), (1, 0.5 + n / 1000)]) for n in range(5)]

    with our_look():
        axes = plot.area(860, 330, WIDE)
        plot.scale(axes, [0, 1], [0.5, 0.504], percent=True)
        plot.series(axes, every)
        plot.name_ends(axes, every)
        chart = to_svg(axes, "names")
    levels = sorted(float(name.attributes["y"]) for name in shapes(chart, "end"))
    assert len(levels) == len(shapes(chart, "leader")) == 5
    assert all(after - before >= 17 - 0.11 for before, after in pairwise(levels))
