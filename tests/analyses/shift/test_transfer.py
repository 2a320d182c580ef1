"""Transfer: a matrix of pairs, what training adds to untrained features, and pairs that are not there."""

import csv
import io
import math

import pytest

from tests.helpers.laddered_content import rung_row, transfer_content, without
from unseen.analyses.shift.transfer import transfers
from unseen.reports import Content, build_report, write_tables


def test_every_ordered_pair_has_its_mean_and_a_baseline():
    content = transfer_content()
    (found,) = transfers(content)
    assert found.trained_on == found.tested_on == ("birds", "cars", "products")
    assert found.methods == {"margin": True, "softmax": True, "untrained features": False}
    for one in found.trained_on:
        for other in found.tested_on:
            own = [row for row in content.rows if (row.method, row.split) == ("margin", f"from {one} to {other}")]
            assert found.mean("margin", one, other, "recall@1") == pytest.approx(
                sum(row.scores["recall@1"] for row in own) / len(own)
            )
            assert found.baseline(other, "recall@1") == pytest.approx(0.5 + 0.1 * found.tested_on.index(other))


def test_where_less_is_better_the_best_baseline_is_the_least():
    rows = transfer_content().rows
    other = [row for row in rows if not row.is_trained]
    worse = Content(
        title="t",
        version="0",
        lower_is_better=("recall@1",),
        rows=[*rows, *(type(row)(**{**vars(row), "method": "raw", "scores": {"recall@1": 0.9}}) for row in other)],
    )
    assert transfers(worse)[0].baseline("birds", "recall@1") == pytest.approx(0.5)


def test_the_page_has_a_matrix_for_each_trained_method(tmp_path):
    content = transfer_content()
    page = build_report(content)
    lede = page.split('<p class="lede">')[1].split("</p>")[0]
    assert "0 of 12</strong> cases" in lede, "two methods on six pairs of different data sets"
    section = page.split('<section id="transfer">')[1].split("</section>")[0]
    assert section.count('<table class="matrix">') == 2
    assert section.count("heat above") == 2 * 3
    assert section.count("heat below") == 2 * 6
    assert "untrained features" in section
    assert page.count('<article class="folded">') == 9
    names = {path.name for path in write_tables(content, tmp_path)}
    assert "transfer.csv" in names
    assert "generalisation.csv" not in names
    rows = list(csv.DictReader(io.StringIO((tmp_path / "transfer.csv").read_text())))
    assert len(rows) == 9 * 3
    one = next(r for r in rows if (r["trained on"], r["tested on"], r["method"]) == ("birds", "cars", "margin"))
    assert float(one["over untrained"]) == pytest.approx(float(one["mean"]) - 0.6)


def test_missing_pairs_and_a_missing_baseline_are_gaps():
    content = without(transfer_content(), lambda row: row.split == "from birds to cars" or not row.is_trained)
    (found,) = transfers(content)
    assert math.isnan(found.mean("margin", "birds", "cars", "recall@1"))
    assert math.isnan(found.baseline("cars", "recall@1"))
    assert "heat above" not in build_report(content)


def test_nothing_trained_still_has_its_numbers():
    page = build_report(transfer_content(methods=()))
    assert "Nothing was trained" in page
    assert "untrained features" in page.split('<section id="transfer">')[1]


def test_a_study_within_one_data_set_has_no_matrix():
    assert transfers(Content(title="t", version="0", rows=[rung_row("margin", 0, 0)])) == ()
