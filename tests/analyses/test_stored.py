"""Analyses as files: the JSON is the truth, the report shows it escaped, and anything else is refused."""

import json
import math
import struct
import zlib
from dataclasses import replace

import pytest
from PIL import Image

from tests.helpers.made_methods import REGULARISATION
from tests.helpers.made_studies import write_study
from unseen.analyses import AnalysisInputs, AnalysisResult, read_analyses, run_analysis, write_analysis
from unseen.analyses.stored import FOLDER, MAX_ROWS
from unseen.core.errors import DataError
from unseen.core.registry import analysis
from unseen.figures.style import panels
from unseen.reports.page import build_report
from unseen.studies.results.content import Content


def small_result(**changes):
    empty = AnalysisResult(draw=lambda: panels(1, 1, width=2, height=2)[0], columns=["x", "y"], rows=[["a", 0.25]])
    return replace(empty, **changes)


def _page(folder):
    return build_report(Content(title="t", version="0", rows=[], pictures=read_analyses(folder)))


def test_the_report_shows_the_analyses_of_its_study(tmp_path):
    folder = write_study(tmp_path / "study", REGULARISATION)
    assert read_analyses(folder) == []
    made, _ = run_analysis("spectral-decay", AnalysisInputs(folder), {})
    [picture] = read_analyses(folder)
    assert picture.name == "spectral-decay"
    assert picture.remarks == tuple(made.remarks)
    assert picture.columns == tuple(made.columns)
    assert len(picture.rows) == len(made.rows)
    page = _page(folder)
    assert picture.address in page
    assert "<h2>Analyses</h2>" in page
    for remark in made.remarks:
        assert remark in page


def test_words_of_strangers_in_pictures_and_tables_are_text(tmp_path):
    folder = write_study(tmp_path / "study", REGULARISATION)
    made = analysis["spectral-decay"](AnalysisInputs(folder))
    hostile = replace(made, remarks=["<script>alert(1)</script>"], columns=["<b>"], rows=[["<i>x</i>"]])
    write_analysis(folder, "a", {}, hostile)
    page = _page(folder)
    assert "<script>" not in page
    assert "<i>x" not in page
    assert "&lt;i&gt;x" in page
    (folder / FOLDER / "a.png").write_text("no picture")
    with pytest.raises(DataError, match=r"a\.png is not the picture of an analysis"):
        read_analyses(folder)


def test_a_long_table_is_cut_and_says_so(tmp_path):
    folder = write_study(tmp_path / "study", REGULARISATION)
    made = analysis["spectral-decay"](AnalysisInputs(folder))
    numbers = replace(made, columns=["n"], rows=[[n] for n in range(MAX_ROWS + 7)])
    write_analysis(folder, "spectral-decay", {}, numbers)
    [picture] = read_analyses(folder)
    assert (len(picture.rows), picture.left_out) == (MAX_ROWS, 7)
    assert "7 more rows are in" in _page(folder)


def test_missing_values_and_infinity_are_null_in_json_and_empty_in_csv(tmp_path):
    rows = [[None, math.nan], ["=1+1", math.inf], [True, 3]]
    path = write_analysis(tmp_path, "made", {"shots": [2, 5]}, small_result(rows=rows, remarks=["r"]))
    stored = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert stored == {
        "version": 1,
        "name": "made",
        "settings": {"shots": [2, 5]},
        "columns": ["x", "y"],
        "rows": [[None, None], ["=1+1", None], [True, 3]],
        "remarks": ["r"],
    }
    assert path.with_suffix(".csv").read_text() == "x,y\n,\n'=1+1,\nTrue,3\n"
    [picture] = read_analyses(tmp_path)
    assert picture.rows == (("", ""), ("=1+1", ""), ("True", "3"))


def test_a_picture_holds_no_text(tmp_path):
    path = write_analysis(tmp_path, "made", {}, small_result(remarks=["a remark"]))
    with Image.open(path.with_suffix(".png")) as image:
        image.load()
        assert not getattr(image, "text", {})
    assert b"a remark" not in path.with_suffix(".png").read_bytes()


def test_a_variant_is_a_part_of_the_file_name_and_no_path(tmp_path):
    path = write_analysis(tmp_path, "structure", {}, small_result(variant="recall@1"))
    assert path == tmp_path / FOLDER / "structure-recall-at-1.json"
    path = write_analysis(tmp_path, "structure", {}, small_result(variant="../../x/y"))
    assert path.parent == tmp_path / FOLDER


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"rows": [["a"]]},
        {"rows": [["a", {"b": 1}]]},
        {"rows": [["a", [1]]]},
        {"remarks": "one"},
        {"remarks": [1]},
        {"columns": None},
        {"name": 3},
        {"picture": "../other.png"},
    ],
    ids=str,
)
def test_a_json_that_is_no_analysis_is_refused(tmp_path, change):
    path = write_analysis(tmp_path, "made", {}, small_result())
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=r"made\.json is not an analysis"):
        read_analyses(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 10_000, b'{"rows": [[NaN, 1]]}'])
def test_a_broken_json_is_refused(tmp_path, content):
    path = write_analysis(tmp_path, "made", {}, small_result())
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"made\.json is not an analysis"):
        read_analyses(tmp_path)


def test_an_analysis_without_its_picture_is_refused_and_a_picture_alone_is_not_read(tmp_path):
    path = write_analysis(tmp_path, "made", {}, small_result())
    path.rename(path.with_name("gone.json"))
    with pytest.raises(DataError, match=r"gone\.png is not the picture"):
        read_analyses(tmp_path)
    path.with_name("gone.json").unlink()
    assert read_analyses(tmp_path) == []


def test_a_picture_that_claims_to_be_endless_is_refused(tmp_path):
    path = write_analysis(tmp_path, "made", {}, small_result())
    header = b"IHDR" + struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    path.with_suffix(".png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk)
    with pytest.raises(DataError, match=r"made\.png is not the picture"):
        read_analyses(tmp_path)
