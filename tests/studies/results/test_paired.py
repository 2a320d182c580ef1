"""Paired differences to a baseline, against slow loops over draws, seeds and classes, and in every report."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from tests.helpers.svg_charts import description, shapes
from tests.reports.hostile_strings import HOSTILE
from unseen.core.randomness import derive, numpy_generator
from unseen.core.text import signed
from unseen.evaluation.intervals import Bootstrap, Draws
from unseen.reports import Content, Row, build_report, terminal_table
from unseen.reports.charts import difference_bar, difference_range
from unseen.reports.tables import to_csv, to_latex, to_markdown
from unseen.studies.results.paired import PairedScore, paired_differences, paired_texts
from unseen.studies.results.ranking import rankings

CLASSES = 12
BOOTSTRAP = Bootstrap(draws=60, confidence=0.9)
NAMED = [text for text in HOSTILE if text]  # no name is no baseline
NAMES = ("recall@1", "map@1000", "nmi", "rho", "f1")


def values_of(method, seed, gain=0.0):
    """A value of each class for each score: classes differ, and so do seeds a little."""
    easy = numpy_generator(derive(0, "classes")).uniform(0.2, 0.6, size=CLASSES)
    noise = numpy_generator(derive(seed, f"{method} by class")).normal(size=(len(NAMES), CLASSES))
    return easy + gain + 0.01 * noise


def make_row(method, seed, values, *, is_trained=True):
    replicates = np.concatenate([weights @ values.T / CLASSES for weights in BOOTSTRAP.weights(CLASSES)]).T
    return Row(
        data="glyphs",
        split="characters",
        method=method,
        seed=seed,
        is_trained=is_trained,
        scores={name: float(row.mean()) for name, row in zip(NAMES, values, strict=True)},
        counts={"queries": 120, "classes": CLASSES},
        definitions={name: f"the definition of {name}" for name in NAMES},
        protocol={"data": {"fingerprint": "a1"}, "split": {"fingerprint": "b2"}, "epochs": 3, "seed": seed},
        draws=Draws(dict(zip(NAMES, replicates, strict=True)), BOOTSTRAP, "a test set"),
    )


GAINS = {"margin": 0.0, "stronger": 0.08, "alike": 0.0, "weaker": -0.08}


def make_content(gains=GAINS, seeds=(0, 1, 2), **changes):
    rows = [make_row(method, seed, values_of(method, seed, gain)) for method, gain in gains.items() for seed in seeds]
    settings = {"title": "t", "version": "0", "rows": rows, "baseline": "margin"}
    return Content(**(settings | {"lower_is_better": ["rho"], "not_shares": ["rho"]} | changes))


def paired_of(content):
    (table,) = rankings(content)
    return paired_differences(content, table)


def by_method(paired):
    return {own.entry.method: own for own in paired.entries}


def every_report(content, width=200):
    stream = io.StringIO()
    for part in terminal_table(content, width):
        Console(file=stream, width=width, color_system=None).print(part)
    return {
        "terminal": stream.getvalue(),
        "csv": to_csv(content),
        "markdown": to_markdown(content),
        "latex": to_latex(content),
        "page": build_report(content),
    }


def test_differences_and_intervals_are_those_of_a_slow_loop():
    found = by_method(paired_of(make_content()))
    assert set(found) == {"stronger", "alike", "weaker"}
    drawn = [row for block in BOOTSTRAP.weights(CLASSES) for row in block]
    for method in found:
        for place, name in enumerate(NAMES[:4]):
            by_seed = []
            draws = [0.0] * len(drawn)
            for seed in (0, 1, 2):
                first, second = values_of("margin", seed), values_of(method, seed, GAINS[method])
                by_seed.append(sum(second[place]) / CLASSES - sum(first[place]) / CLASSES)
                for draw, times in enumerate(drawn):
                    for number in range(CLASSES):
                        difference = second[place][number] - first[place][number]
                        draws[draw] += times[number] * difference / CLASSES / 3
            value = sum(by_seed) / 3
            middle = sum(draws) / len(draws)
            own = found[method].scores[name]
            assert own.value == pytest.approx(value, abs=1e-12)
            assert own.low == pytest.approx(np.quantile(draws, 0.05) - middle + value, abs=1e-12)
            assert own.high == pytest.approx(np.quantile(draws, 0.95) - middle + value, abs=1e-12)
            assert list(own.by_seed) == [0, 1, 2]
            assert list(own.by_seed.values()) == pytest.approx(by_seed, abs=1e-12)
            assert own.deviation == pytest.approx(np.std(by_seed), abs=1e-12)


def test_the_main_score_and_those_people_ask_for_are_compared():
    assert paired_of(make_content()).scores == ("recall@1", "map@1000", "nmi", "rho")
    assert paired_of(make_content(main_score="f1")).scores == ("f1", "recall@1", "map@1000", "nmi", "rho")
    assert paired_of(make_content()).confidence == 0.9


def test_only_an_interval_without_0_is_called_better_or_worse_and_less_may_be_better():
    found = by_method(paired_of(make_content()))
    assert {name: own.verdict for name, own in found["stronger"].scores.items()} == {
        "recall@1": "better",
        "map@1000": "better",
        "nmi": "better",
        "rho": "worse",
    }
    assert found["weaker"].scores["recall@1"].verdict == "worse"
    assert found["weaker"].scores["rho"].verdict == "better"
    for own in found["alike"].scores.values():
        assert (own.verdict == "") == (own.low <= 0 <= own.high)


def test_equal_methods_differ_by_nothing():
    rows = [make_row(method, seed, values_of("margin", seed)) for method in ("margin", "same") for seed in (0, 1)]
    (own,) = paired_of(make_content(rows=rows)).entries
    for found in own.scores.values():
        assert (found.value, found.low, found.high, found.verdict, found.deviation) == (0, 0, 0, "", 0)


def test_the_order_of_the_cells_changes_nothing():
    content = make_content()
    turned = replace(content, rows=[*content.rows[5:][::-1], *content.rows[:5]])
    assert every_report(turned) == every_report(content)


def test_differences_are_averaged_over_the_seeds_that_both_have():
    content = make_content()
    kept = [row for row in content.rows if (row.method, row.seed) not in {("margin", 2), ("stronger", 0)}]
    found = by_method(paired_of(replace(content, rows=kept)))
    assert found["stronger"].seeds == (1,)
    assert found["alike"].seeds == (0, 1)
    whole = by_method(paired_of(content))["stronger"].scores["nmi"]
    assert found["stronger"].scores["nmi"].value == whole.by_seed[1]
    assert found["stronger"].scores["nmi"].deviation is None


def test_a_cell_without_draws_is_left_out_by_name_in_every_report():
    content = make_content()
    rows = [replace(row, draws=None) if row.method == "alike" and row.seed > 0 else row for row in content.rows]
    rows = [replace(row, draws=None) if row.method == "weaker" else row for row in rows]
    old = replace(content, rows=rows)
    paired = paired_of(old)
    assert by_method(paired)["alike"].seeds == (0,)
    assert "weaker" not in by_method(paired)
    assert set(paired.left_out) == {
        ("alike", "no draws were stored for seeds 1 and 2"),
        ("weaker", "no draws were stored for seeds 0, 1 and 2"),
        ("weaker", "no seed for which both it and margin stored draws"),
    }
    for kind, text in every_report(old).items():
        assert "no draws were stored for seeds 1 and 2" in text, kind
        assert "no draws were stored for seeds 0, 1 and 2" in text, kind


def test_a_baseline_without_a_cell_is_named_in_every_report():
    content = make_content()
    without = replace(content, rows=[row for row in content.rows if row.method != "margin"])
    for kind, text in every_report(without).items():
        if kind != "csv":  # there is no line for a method without a cell
            assert "margin" in text, kind
            assert "it has no finished cell here" in text, kind


def test_a_report_without_a_baseline_says_nothing_of_differences():
    for text in every_report(make_content(baseline="")).values():
        assert "aired difference" not in text
        assert "difference low" not in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda row: {"draws": replace(row.draws, test_set="another")}, "do not share test set and bootstrap"),
        (lambda row: {"definitions": {name: "another" for name in NAMES}}, "is not defined alike"),
        (lambda row: {"protocol": {**row.protocol, "split": {"fingerprint": "c3"}}}, "not measured on the data and"),
        (lambda row: {"draws": replace(row.draws, replicates={})}, "no draws of recall@1, map@1000, nmi and rho"),
    ],
    ids=["test set", "definition", "split", "no draws"],
)
def test_what_cannot_be_compared_is_left_out_with_the_reason(change, words):
    content = make_content()
    rows = [replace(row, **change(row)) if row.method == "stronger" else row for row in content.rows]
    paired = paired_of(replace(content, rows=rows))
    assert "stronger" not in by_method(paired)
    ((method, why),) = paired.left_out
    assert method == "stronger"
    assert words in why


def test_unlike_protocols_are_not_judged():
    content = make_content()
    rows = [
        replace(row, protocol={**row.protocol, "epochs": 9}) if row.method == "stronger" else row
        for row in content.rows
    ]
    unlike = replace(content, rows=rows)
    own = by_method(paired_of(unlike))["stronger"].scores["recall@1"]
    assert own.low > 0
    assert own.verdict == ""
    assert "The protocols differ, so nothing is called better or worse." in build_report(unlike)


def test_every_report_shows_difference_interval_and_what_it_covers():
    content = make_content()
    own = by_method(paired_of(content))["stronger"].scores["recall@1"]
    value, deviation, interval = paired_texts(own, percent=True)
    reports = every_report(content)
    for kind in ("terminal", "markdown", "page"):
        assert value in reports[kind], kind
        assert deviation in reports[kind], kind
        assert interval in reports[kind].replace("\\", ""), kind
    for kind in ("terminal", "markdown", "page", "latex"):
        words = " ".join(reports[kind].split()).replace("\\", "")
        assert "interval covers the choice of classes, not of seeds" in words, kind
    assert "−" not in reports["latex"].replace("%", "")
    assert r"$\pm$" in reports["latex"]
    line = next(row for row in csv.DictReader(io.StringIO(reports["csv"])) if row["method"] == "stronger")
    assert line["baseline"] == "margin"
    assert float(line["recall@1 difference"]) == own.value
    assert (float(line["recall@1 difference low"]), float(line["recall@1 difference high"])) == (own.low, own.high)
    assert float(line["recall@1 difference standard deviation"]) == own.deviation
    assert line["recall@1 difference seeds"] == "3"


def test_a_narrow_terminal_shows_fewer_differences():
    text = every_report(make_content(), width=70)["terminal"]
    table = text[text.index("paired difference") :]
    assert "recall@1 points" in table
    assert "rho" not in table.partition("Method minus")[0]
    assert all(len(line) <= 70 for line in text.splitlines())


@pytest.mark.parametrize("text", NAMED, ids=[ascii(text)[:30] for text in NAMED])
def test_hostile_names_are_text_beside_a_difference(text):
    rows = [make_row(method, 0, values_of(method, 0)) for method in (text, "other")]
    content = make_content(rows=[*rows, replace(rows[1], method="old", draws=None)], baseline=text)
    shapes = {len(row) for row in csv.reader(io.StringIO(to_csv(content)))}
    assert len(shapes) == 1
    tables = [line for line in to_markdown(content).splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in tables}) == 2  # one ranking, one of differences
    latex = to_latex(content)
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
    assert all(line.startswith("%") for line in latex.splitlines() if "aired difference" in line or "Left out" in line)
    assert build_report(content).count("<script") == 0


def test_a_bar_draws_zero_interval_mean_and_seeds():
    paired = PairedScore(0.02, -0.01, 0.05, {0: 0.01, 1: 0.03}, "")
    limits = difference_range([paired])
    assert limits == (-0.01, 0.05)
    chart = difference_bar(paired, limits, percent=True)
    assert [shape.role for shape in shapes(chart)] == ["zero", "interval", *["seed difference"] * 2, "mean difference"]
    assert {shape.style("stroke") for shape in shapes(chart)[:2]} == {"var(--faint)"}
    assert description(chart) == "+2.00 ± 1.00, interval −1.00 to +5.00"
    better = replace(paired, verdict="better")
    assert shapes(difference_bar(better, limits, percent=True), "interval")[0].style("stroke") == "var(--right)"
    assert difference_bar(PairedScore(float("nan"), 0.0, 0.0, {}, ""), limits, percent=True) is None
    nothing = PairedScore(0.0, 0.0, 0.0, {0: 0.0}, "")
    centred = difference_bar(nothing, difference_range([nothing]), percent=True)
    assert shapes(centred, "zero")[0].attributes["d"] == "M80 0L80 22"


def test_signs_of_small_and_of_no_differences():
    assert signed(1e-7, percent=False) == "+1e-07"
    assert signed(-1e-7, percent=False) == "−1e-07"
    assert signed(0.0, percent=False) == "0"
    assert signed(float("inf"), percent=True) == "not finite"
