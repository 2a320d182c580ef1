"""Structure against shift: trends and correlations against closed forms, and what is left out."""

import math

import numpy as np
import pytest

from tests.helpers.laddered_content import METHODS, ladder_content, rung_row
from unseen.analyses import write_analysis
from unseen.analyses.generalisation import generalisation_result
from unseen.analyses.shift.ladder_results import ladder_results
from unseen.analyses.structure import Point, relation, relation_row, relations, structure_result, trend
from unseen.core.errors import ConfigError, DataError
from unseen.reports import build_report


def points(pairs):
    return [Point("m", "s", False, float(x), float(y)) for x, y in pairs]


def test_a_line_is_its_own_trend():
    found = trend(points([(0, 5), (1, 3), (2, 1), (4, -3)]))
    assert (found.slope, found.intercept) == pytest.approx((-2, 5))
    assert found.correlation.pearson == pytest.approx(-1)
    assert found.scaled_slope == pytest.approx(-1)


def test_the_trend_is_the_least_squares_line():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 30))
    found = trend(points(zip(x, y, strict=True)))
    assert (found.slope, found.intercept) == pytest.approx(tuple(np.polyfit(x, y, 1)))
    x, y = ((values - values.min()) / (values.max() - values.min()) for values in (x, y))
    assert found.scaled_slope == pytest.approx(np.polyfit(x, y, 1)[0])


@pytest.mark.parametrize("pairs", [[], [(1, 2), (2, 3)], [(1, 2), (1, 3), (1, 4)], [(1, 2), (2, 2), (3, 2)]])
def test_too_few_points_and_constant_scores_have_no_trend(pairs):
    found = trend(points(pairs))
    assert math.isnan(found.slope)
    assert found.correlation.points == len(pairs)


def test_points_are_trained_methods_on_rungs_and_the_default_split_is_known():
    content = ladder_content()
    (ladder,) = ladder_results(content)
    found = relation(ladder, "rho", "recall@1")
    assert len(found.points) == 9 * len(METHODS)
    assert {point.method for point in found.points} == set(METHODS)
    assert {point.split for point in found.points if point.is_start} == {"rung 3"}
    assert found.at_start.correlation.points == len(METHODS)
    own = [row for row in content.rows if (row.method, row.split) == ("margin", "rung 5")]
    point = next(point for point in found.points if (point.method, point.split) == ("margin", "rung 5"))
    assert point.structure == pytest.approx(sum(row.scores["rho"] for row in own) / 3)
    assert point.retrieval == pytest.approx(sum(row.scores["recall@1"] for row in own) / 3)


def test_every_structure_score_meets_every_retrieval_score():
    content = ladder_content()
    (ladder,) = ladder_results(content)
    found = relations(content, ladder)
    assert [(each.structure, each.retrieval) for each in found] == [
        (one, other) for one in ("rho", "intra_inter", "uniformity") for other in ("recall@1", "map@r")
    ]
    exact = next(each for each in found if (each.structure, each.retrieval) == ("uniformity", "map@r"))
    assert exact.everywhere.correlation.pearson == pytest.approx(-1)
    assert exact.everywhere.scaled_slope == pytest.approx(-1)


def test_without_the_default_split_its_numbers_are_empty():
    content = ladder_content(rungs=[0, 1, 5])
    (ladder,) = ladder_results(content)
    row = relation_row(ladder, relation(ladder, "rho", "recall@1"))
    assert row[-4:] == [0, None, None, None]
    page = build_report(content)
    assert "Structure against shift" in page
    assert "the default split alone" not in page


def test_too_little_to_correlate_has_no_section():
    content = ladder_content(rungs=[0, 1], methods=["margin"])
    assert "Structure against shift" not in build_report(content)


def test_a_picture_and_its_numbers_are_written_for_any_score(tmp_path):
    content = ladder_content(rungs=[0, 2, 8], methods=["margin", "softmax"], seeds=[0, 1])
    results = {
        "generalisation": generalisation_result(content, "map@r", "sample"),
        "structure": structure_result(content, "map@r"),
    }
    for name, result in results.items():
        path = write_analysis(tmp_path, name, {}, result)
        assert path == tmp_path / "analyses" / f"{name}-map-at-r.json"
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert path.with_suffix(".csv").read_text().count("\n") == 1 + len(result.rows)
        assert len(result.terminal_rows()[0]) == len(result.printed_columns)
        assert result.remarks


def test_a_study_without_a_ladder_or_the_score_is_refused():
    with pytest.raises(DataError, match="no two rungs of a ladder"):
        generalisation_result(ladder_content(rungs=[3]), "recall@1")
    with pytest.raises(ConfigError, match="no score 'recall@2'; did you mean 'recall@1'"):
        generalisation_result(ladder_content(rungs=[0, 1]), "recall@2")
    with pytest.raises(DataError, match="no score of structure"):
        structure_result(ladder_content(rungs=[0, 1], structure_scores=()), "recall@1")


def test_the_level_of_distances_changes_the_aggregate_where_they_are_not_proportional():
    rows = [rung_row("margin", 0, rung) for rung in (0, 1, 2)]
    far = rows[1].protocol["split"] | {"sample_distance": 28.0}
    rows[1] = rung_row("margin", 0, 1, protocol=rows[1].protocol | {"split": far})
    content = ladder_content(rows=rows)
    by_class, by_sample = (
        generalisation_result(content, "recall@1", level).rows[0][6] for level in ("class", "sample")
    )
    assert by_class != by_sample
