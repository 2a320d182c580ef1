"""The tables at the end of a command."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests.helpers.synthetic_content import make_row
from tests.reports.hostile_strings import HOSTILE
from unseen.core.text import cut, plain
from unseen.reports import Content, FailedCell, terminal_table


def printed(content, width=140):
    stream = io.StringIO()
    for part in terminal_table(content, width):
        Console(file=stream, width=width, color_system=None).print(part)
    return stream.getvalue()


def test_there_is_a_table_for_each_split_with_ranks_and_deviations(demo_content):
    text = printed(demo_content)
    assert "glyphs / characters" in text
    assert "glyphs / scripts" in text
    line = next(line for line in text.splitlines() if "multi-similarity" in line)
    assert line.split("│")[1].strip() == "1"
    assert "±" in line
    assert "failed: glyphs / scripts / contrastive / seed 2: the loss stopped being finite" in text


def test_a_narrow_terminal_shows_fewer_scores_and_whole_names(demo_content):
    text = printed(demo_content, width=70)
    assert "untrained network" in text
    assert "recall@1" in text
    assert "f1" not in text
    assert all(len(line) <= 70 for line in text.splitlines() if "│" in line)


def test_unlike_protocols_are_said(demo_content):
    rows = list(demo_content.rows)
    rows[0] = replace(rows[0], protocol={**rows[0].protocol, "epochs": 999})
    assert "Not ranked: different protocols, rows differ in epochs" in printed(replace(demo_content, rows=rows))


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text)[:30] for text in HOSTILE])
def test_hostile_names_are_text_in_a_terminal(text):
    row = replace(make_row("characters", "contrastive", 0), method=text, data=text, scores={"recall@1": 0.5})
    failed = [FailedCell(labels=(text,), sentence=text)]
    shown = printed(Content(title="t", version="0", rows=[row], failed=failed), width=400)
    assert cut(plain(text), 60) in shown
    assert not set(shown) & {chr(code) for code in (*range(10), *range(11, 32), 127, 0x85, 0x202E, 0x2067)}
