"""The page as a whole: what it says, what it leaves out, and that it is a pure function of its content."""

import hashlib
import math
from dataclasses import replace

import pytest

from tests.helpers.synthetic_content import METHODS, change_rows, make_content, make_row
from unseen.reports import Content, FailedCell, build_report, write_report
from unseen.reports.page import columns, hardest
from unseen.studies.results.ranking import rankings

SECTIONS = ("ranking", "splits", "curves", "maps", "neighbours", "failed", "protocol")


def sections(html):
    return [name for name in SECTIONS if f'<section id="{name}">' in html]


def alone(**changes):
    return Content(title="t", version="0", rows=[replace(make_row("characters", "contrastive", 0), **changes)])


def test_the_same_content_gives_the_same_bytes(demo_report, tmp_path):
    again = make_content(fonts=3, queries=4)
    write_report(again, tmp_path / "a.html")
    written = (tmp_path / "a.html").read_bytes()
    assert hashlib.sha256(written).hexdigest() == hashlib.sha256(demo_report.encode()).hexdigest()


def test_a_study_has_every_section(demo_report):
    assert sections(demo_report) == list(SECTIONS)
    for name in SECTIONS:
        assert f'href="#{name}"' in demo_report


def test_the_headline_names_the_best_method_and_what_is_there_without_training(demo_content, demo_report):
    best = rankings(demo_content)[0]
    said = f"{100 * best.trained[0].summary('recall@1').mean:.1f} %"
    lede = demo_report.split('<p class="lede">')[1].split("</p>")[0]
    assert "characters never seen in training" in lede
    assert best.trained[0].method in lede
    assert said in lede
    assert "raw pixels" in lede
    assert "untrained network" in lede


def test_every_protocol_field_of_every_row_is_on_the_page(demo_report):
    block = demo_report.split('<section id="protocol">')[1]
    assert block.count("<details>") == 2 * (len(METHODS) + 2)
    assert block.count("best epoch by validation recall@1 on held-out classes") == 2 * (len(METHODS) + 2)
    assert '<span class="quiet">seed 1</span> <bdi>1</bdi>' in block
    assert "Share of queries whose nearest other item has their class." in block


def test_right_and_wrong_are_told_by_sign_not_by_colour_alone(demo_report):
    assert demo_report.count('<figure class="tile right"') == demo_report.count('aria-label="right">✓') > 0
    assert demo_report.count('<figure class="tile wrong"') == demo_report.count('aria-label="wrong">✗') > 0


def test_unlike_protocols_get_a_notice_with_the_field(demo_content):
    rows = list(demo_content.rows)
    rows[0] = replace(rows[0], protocol={**rows[0].protocol, "epochs": 999})
    html = build_report(replace(demo_content, rows=rows))
    notice = html.split('<div class="notice" role="note">')[1].split("</div>")[0]
    assert "Not ranked: different protocols" in notice
    assert '<bdi class="name">epochs</bdi>' in notice
    assert '<bdi class="name">999</bdi>' in notice
    assert html.count('<div class="notice"') == 1
    assert "run under different protocols" in html


def test_like_protocols_get_no_notice(demo_report):
    assert "different protocols" not in demo_report


def test_without_thumbnails_maps_have_points_and_neighbours_have_names(demo_content):
    rows = [
        row
        if row.sample is None
        else replace(
            row, sample=replace(row.sample, map_thumbnails=None, query_thumbnails=None, neighbour_thumbnails=None)
        )
        for row in demo_content.rows
    ]
    html = build_report(replace(demo_content, rows=rows))
    assert "<image" not in html
    assert "<img" not in html
    assert 'class="point c0"' in html
    assert html.count("no image") > 10


def test_without_anything_to_draw_there_are_no_maps(demo_content):
    assert sections(build_report(change_rows(demo_content, sample=None))) == [
        name for name in SECTIONS if name not in ("maps", "neighbours")
    ]


def test_one_run_of_one_method_makes_a_report():
    html = build_report(alone())
    assert sections(html) == ["ranking", "curves", "protocol"]
    assert '<span class="deviation"> –</span>' in html
    assert "±" not in html.split("<table")[1].split("</table>")[0]


def test_an_empty_history_has_no_curves():
    assert "curves" not in sections(build_report(alone(history=[])))


def test_a_history_without_validation_still_shows_the_loss():
    html = build_report(alone(history=[{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": math.nan}]))
    assert "Training loss" in html
    assert "Validation" not in html


def test_failed_cells_are_listed_and_a_study_of_only_failures_says_so():
    failed = [FailedCell(labels=("glyphs", "scripts"), sentence="the loss stopped being finite")]
    html = build_report(Content(title="t", version="0", rows=[], failed=failed))
    assert sections(html) == ["failed"]
    assert "the loss stopped being finite" in html
    assert "No cell has finished yet, and all cells so far have failed" in html


def test_content_without_rows_makes_a_page():
    assert "No cell has finished yet." in build_report(Content(title="t", version="0", rows=[]))


def test_rows_without_scores_do_not_break_the_page():
    assert sections(build_report(alone(scores={}))) == ["ranking", "curves", "protocol"]


def test_scores_that_are_not_finite_are_shown_as_such():
    assert "not finite" in build_report(alone(scores={"recall@1": math.nan}))


def test_other_main_scores_are_named_in_the_headline():
    html = build_report(alone(scores={"distance": 12.5}))
    assert "reaches a" in html
    assert "12.5" in html


@pytest.mark.parametrize("count", [1, 2, 3])
def test_only_the_hardest_tables_are_drawn(count):
    rows = [
        replace(make_row("characters", "contrastive", 0), split=f"split {index}", scores={"recall@1": score})
        for index, score in enumerate((0.5, 0.9, 0.2)[:count])
    ]
    tables = rankings(Content(title="t", version="0", rows=rows))
    expected = {1: ["split 0"], 2: ["split 0", "split 1"], 3: ["split 0", "split 2"]}[count]
    assert [table.split for table in hardest(tables)] == expected


def test_the_ranking_has_few_columns_and_other_scores_their_own_table(demo_content, demo_report):
    assert len(columns(rankings(demo_content)[0].scores)) == 5
    assert demo_report.count("All other scores") == 2
    head = demo_report.split("All other scores")[1].split("</thead>")[0]
    assert "recall@8" in head


def test_the_page_names_no_time_and_no_place(demo_report):
    assert "/tmp" not in demo_report
    assert "/home" not in demo_report
    assert not any(f"{year}-" in demo_report for year in range(2024, 2040))
