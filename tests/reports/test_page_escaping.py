"""A report shows any text as text: hostile strings in every field."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.helpers.svg_charts import STYLE
from tests.helpers.synthetic_content import make_row, make_sample
from tests.helpers.synthetic_failures import make_failures
from tests.reports.hostile_strings import HOSTILE
from unseen.core.text import clean
from unseen.reports import Content, FailedCell, build_report

ELEMENTS = """
    html head meta title link style body nav div ol ul li a main header h1 h2 h3 h4 p strong b small span bdi section
    article table thead tbody tr th td svg path circle g image rect text details summary figure figcaption img dl dt dd
    code footer
"""
ATTRIBUTES = """
    lang charset http-equiv content name rel href class id dir title aria-label aria-hidden role scope colspan viewbox
    d x y cx cy r width height style src alt
"""
FIELDS = (
    *("title", "description", "version", "data", "split", "method", "score", "definition", "count", "where"),
    *("protocol-key", "protocol-value", "label", "sentence", "class", "group"),
    *("query-name", "query-class", "neighbour-name", "neighbour-class", "failure-name", "failure-class"),
)


class Page(HTMLParser):
    """All elements, attributes and texts of a page."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.attributes, self.texts = set(), [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes.extend((tag, name, value or "") for name, value in attrs)

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment came in: {data[:40]}")

    def unknown_decl(self, data):
        raise AssertionError(f"a declaration came in: {data[:40]}")


def names(text, shape):
    return np.full(shape, text, dtype=object)


def content_of(text):
    """A small content with the text, followed by the field's name, in every field that holds text."""
    marked = {field: f"{text}·{field}" for field in FIELDS}
    sample = make_sample("scripts", noise=0.5, fonts=1, queries=2, neighbours=2)
    points, neighbours = sample.map_labels.shape, sample.neighbour_right.shape
    groups = names(marked["group"], points)
    groups[0] = "another"
    sample = replace(
        sample,
        map_classes=names(marked["class"], points),
        map_groups=groups,
        query_names=np.array([marked["query-name"], "other"], dtype=object),
        query_classes=names(marked["query-class"], (2,)),
        neighbour_names=names(marked["neighbour-name"], neighbours),
        neighbour_classes=names(marked["neighbour-class"], neighbours),
        failures=make_failures(names=names(marked["failure-name"], (4,)), classes=names(marked["failure-class"], (4,))),
    )
    row = replace(
        make_row("characters", "contrastive", 0, sample=sample),
        data=marked["data"],
        split=marked["split"],
        method=marked["method"],
        scores={marked["score"]: 0.5},
        definitions={marked["score"]: marked["definition"]},
        counts={marked["count"]: 3},
        protocol={marked["protocol-key"]: {"inner": marked["protocol-value"]}},
    )
    return Content(
        title=marked["title"],
        description=marked["description"],
        version=marked["version"],
        rows=[row, replace(row, method="other", protocol={marked["protocol-key"]: {"inner": "unlike"}})],
        failed=[FailedCell(labels=(marked["label"],), sentence=marked["sentence"])],
        main_score=marked["score"],
        split_descriptions={marked["split"]: marked["where"]},
    )


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text)[:30] for text in HOSTILE])
def test_a_hostile_string_appears_verbatim_in_every_field_and_adds_no_element(text):
    page = Page(build_report(content_of(text)))
    assert page.elements <= set(ELEMENTS.split())
    assert {name for _, name, _ in page.attributes} <= set(ATTRIBUTES.split())
    for tag, name, value in page.attributes:
        if name == "style":
            assert STYLE.fullmatch(value), value
        if name in ("href", "src"):
            assert value.startswith("#" if tag == "a" else "data:"), (tag, name, value)
    # Each text and each attribute by itself: a text torn into pieces by an element would not be found.
    found = "\0".join([*page.texts, *(value for _, _, value in page.attributes)])
    missing = [field for field in FIELDS if clean(f"{text}·{field}") not in found]
    assert missing == []


def test_no_control_character_and_no_half_surrogate_reaches_the_file():
    html = build_report(content_of("".join(map(chr, [*range(32), *range(127, 160), 0xD800, 0xDFFF, 0xFFFE]))))
    assert not set(html) & {chr(code) for code in (*range(9), 11, 12, 13, *range(14, 32), *range(127, 160))}
    assert html.encode("utf-8").decode("utf-8") == html
    assert "␀" in html


def test_names_are_isolated_from_the_writing_direction_around_them():
    html = build_report(content_of("\u202egpj.exe"))
    assert '<bdi class="name">\u202egpj.exe·data</bdi>' in html


def test_a_name_of_a_million_letters_is_cut_everywhere_but_in_its_protocol():
    name = "long " * 200_000
    row = replace(make_row("characters", "contrastive", 0), method=name)
    html = build_report(Content(title="t", version="0", rows=[row]))
    assert html.count(name) == 1
    assert len(html) < 1_100_000


def test_the_policy_allows_no_script_and_no_source_but_data():
    html = build_report(content_of("x"))
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}' in html
    assert "<script" not in html
    assert "url(" not in html
    assert "@import" not in html
