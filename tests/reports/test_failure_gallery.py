"""Failures as pictures and on the page."""

from dataclasses import replace

import numpy as np

from tests.helpers.synthetic_content import make_row, make_sample
from tests.helpers.synthetic_failures import make_failures
from unseen.reports import Content, build_report
from unseen.reports.failure_gallery import MOST_NEAREST, MOST_PAIRS, MOST_WORST, failure_gallery


def page_of(failures):
    sample = replace(make_sample("scripts", noise=0.5, fonts=1, queries=2, neighbours=2), failures=failures)
    return build_report(Content(title="t", version="0", rows=[make_row("characters", "contrastive", 0, sample=sample)]))


def test_marks_names_and_places_are_those_of_the_arrays():
    gallery = failure_gallery(make_failures())
    first, second = gallery.worst
    assert (first.tile.class_name, first.tile.is_right, first.rank) == ("owl", None, "1,203")
    assert (first.positive.class_name, first.positive.is_right) == ("owl", True)
    assert [tile.is_right for tile in first.nearest] == [False, False, True]
    assert [tile.is_right for tile in second.nearest] == [False, False, True]
    assert "third" in first.nearest[0].title
    assert "similarity 0.875" in first.nearest[0].title
    assert "similarity 0.250" in first.positive.title
    assert second.rank == "3.5"
    (confused,), (duplicate,) = gallery.confused, gallery.duplicates
    assert (confused.one.class_name, confused.two.class_name, confused.caption) == ("owl", "emu", "3 of 5 queries")
    assert (duplicate.one.class_name, duplicate.two.class_name) == ("emu", "owl")
    assert duplicate.caption == "similarity 0.9953"
    assert (gallery.failed, gallery.queries, gallery.confused_pairs, gallery.duplicate_pairs) == (1234, 5000, 17, 1)


def test_classes_of_one_name_are_told_apart_by_their_label():
    gallery = failure_gallery(make_failures(classes=np.array(["same"] * 4)))
    assert [tile.is_right for tile in gallery.worst[0].nearest] == [False, False, True]


def test_long_lists_are_cut():
    many = np.zeros((40, 2), dtype=np.int64)
    gallery = failure_gallery(
        make_failures(
            worst_items=np.zeros((40, 22), dtype=np.int64),
            worst_similarity=np.ones((40, 21)),
            worst_rank=np.full(40, 2.0),
            confused_items=many,
            confused_queries=many + 1,
            duplicate_items=many,
            duplicate_similarity=np.ones(40),
        )
    )
    assert (len(gallery.worst), len(gallery.worst[0].nearest)) == (MOST_WORST, MOST_NEAREST)
    assert len(gallery.confused) == len(gallery.duplicates) == MOST_PAIRS


def test_failures_without_pictures_are_shown_by_name():
    gallery = failure_gallery(make_failures(thumbnails=None))
    assert gallery.worst[0].tile.uri == ""
    assert "no image" in page_of(make_failures(thumbnails=None)).split('<section id="failures">')[1]


def test_the_page_has_the_section_where_failures_are_known_and_only_there():
    section = page_of(make_failures()).split('<section id="failures">')[1].split("</section>")[0]
    for words in ("1,234</b> of 5,000 queries", "17</b> pairs", "1</b> near-duplicate ", "rank 1,203", "0.98"):
        assert words in section
    assert section.count("<img") == 2 * (2 + 3) + 2 + 2
    assert 'id="failures"' not in page_of(None)
    assert 'href="#failures"' not in page_of(None)


def test_a_page_of_a_perfect_method_lists_nothing():
    none = np.empty((0, 2), dtype=np.int64)
    perfect = make_failures(
        names=np.empty(0, dtype="U1"),
        classes=np.empty(0, dtype="U1"),
        labels=np.empty(0, dtype=np.int64),
        worst_items=none,
        worst_similarity=np.empty((0, 1)),
        worst_rank=np.empty(0),
        confused_items=none,
        confused_queries=none,
        duplicate_items=none,
        duplicate_similarity=np.empty(0),
        totals=np.array([0, 9, 0, 0]),
        thumbnails=None,
    )
    section = page_of(perfect).split('<section id="failures">')[1].split("</section>")[0]
    assert "0</b> of 9 queries" in section
    assert "<h4>" not in section


def test_hostile_names_stay_text():
    text = "<script>alert(1)</script>"
    html = page_of(make_failures(names=np.full(4, text), classes=np.full(4, f"{text} class")))
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; class" in html.split('<section id="failures">')[1]
