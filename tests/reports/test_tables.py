"""The ranking as CSV, Markdown and LaTeX."""

import csv
import io
import re
from dataclasses import replace

import pytest

from tests.helpers.synthetic_content import make_row
from tests.reports.hostile_strings import HOSTILE
from unseen.reports import Content, write_tables
from unseen.reports.tables import csv_text, latex_text, markdown_text, to_csv, to_latex, to_markdown
from unseen.studies.results.ranking import rankings


def named(text):
    row = make_row("characters", "contrastive", 0)
    return Content(title="t", version="0", rows=[replace(row, data=text, split=text, method=text, scores={text: 0.5})])


def test_the_csv_holds_every_mean_in_full(demo_content):
    rows = list(csv.DictReader(io.StringIO(to_csv(demo_content))))
    entries = [(table, entry) for table in rankings(demo_content) for entry in table.entries]
    assert len(rows) == len(entries) == 12
    for row, (table, entry) in zip(rows, entries, strict=True):
        assert (row["split"], row["method"], row["rank"]) == (table.split, entry.method, str(entry.rank or ""))
        assert float(row["recall@1 mean"]) == entry.summary("recall@1").mean
        deviation = entry.summary("recall@1").deviation
        assert row["recall@1 standard deviation"] == ("" if deviation is None else repr(deviation))
        assert row["note"] == ""


@pytest.mark.parametrize("start", ["=", "+", "-", "@", " =", "\t=", "\r@", "＝"])
def test_no_csv_cell_starts_like_a_formula(start):
    rows = list(csv.reader(io.StringIO(to_csv(named(f"{start}1+cmd|' /C calc'!A0")))))
    for cell in (cell for row in rows for cell in row):
        assert not cell.lstrip().startswith(("=", "+", "-", "@", "＝"))
    assert "1+cmd|' /C calc'!A0" in rows[1][3]


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text)[:30] for text in HOSTILE])
def test_hostile_names_keep_the_shape_of_every_table(text):
    content = named(text)
    rows = list(csv.reader(io.StringIO(to_csv(content))))
    assert len(rows) == 2
    assert len({len(row) for row in rows}) == 1
    markdown = to_markdown(content)
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert "<" not in markdown
    latex = to_latex(content)
    assert latex.count("\\\\") == 2
    assert {line[0] for line in latex.splitlines() if line} <= {"%", "\\", "1"}


def test_signs_of_latex_and_markdown_are_escaped():
    assert latex_text("50% of a_b & {c}") == r"50\% of a\_b \& \{c\}"
    assert latex_text("\\x^~") == r"\textbackslash{}x\textasciicircum{}\textasciitilde{}"
    assert markdown_text("a|b *c* <d>") == r"a\|b \*c\* &lt;d&gt;"
    assert csv_text("a\nb") == "a␊b"


def test_unlike_protocols_are_said_in_every_table(demo_content):
    rows = list(demo_content.rows)
    rows[0] = replace(rows[0], protocol={**rows[0].protocol, "epochs": 999})
    content = replace(demo_content, rows=rows)
    for text in (to_csv(content), to_markdown(content), to_latex(content)):
        assert re.search(r"Not ranked\\?: different protocols, rows differ in epochs", text)


def test_the_best_is_bold_and_untrained_rows_follow_a_rule(demo_content):
    best = rankings(demo_content)[0].trained[0]
    value = f"{100 * best.summary('recall@1').mean:.1f}"
    assert f"| 1 | {best.method} | **{value}** ± " in to_markdown(demo_content)
    lines = to_latex(demo_content).splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("–"))
    assert lines[first - 1] == r"\hline"


def test_the_tables_are_written_into_a_folder(demo_content, tmp_path):
    paths = write_tables(demo_content, tmp_path / "new")
    assert [path.name for path in paths] == ["ranking.csv", "ranking.md", "ranking.tex"]
    assert paths[0].read_text(encoding="utf-8") == to_csv(demo_content)
