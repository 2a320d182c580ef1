"""The result of an evaluation: a read-only mapping that survives JSON and other processes."""

import copy
import io
import json
from typing import Any

import pytest
from rich.console import Console

from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import score
from unseen.evaluation import Recall
from unseen.evaluation.score_table import Scores, read_names


def some_scores(**changes):
    content: dict[str, Any] = {
        "numbers": {"recall@1": 0.25, "map@r": 0.125},
        "definitions": {"recall@1": "first", "map@r": "second"},
        "queries": 1200,
        "gallery": 1300,
        "classes": 10,
        "queries_without_positives": 3,
    }
    return Scores(**content | changes)


def test_scores_read_like_a_mapping_and_cannot_be_changed():
    found = some_scores()
    assert dict(found) == {"recall@1": 0.25, "map@r": 0.125}
    assert (len(found), "map@r" in found, found.get("nmi")) == (2, True, None)
    with pytest.raises(KeyError, match=r"no score 'recall@2' was computed; did you mean 'recall@1'"):
        found["recall@2"]
    with pytest.raises(TypeError):
        found.numbers["recall@1"] = 1.0
    with pytest.raises(AttributeError):
        found.queries = 2


def test_scores_do_not_share_the_dictionary_they_were_made_from():
    numbers = {"recall@1": 0.25}
    found = some_scores(numbers=numbers)
    numbers["recall@1"] = 1.0
    assert found["recall@1"] == 0.25


def test_scores_survive_json_and_the_way_to_another_process():
    found = some_scores()
    assert Scores.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    build, arguments = found.__reduce__()  # what multiprocessing sends
    assert build(*arguments) == found == copy.deepcopy(found)
    assert some_scores(queries=7) != found


@pytest.mark.parametrize("change", [{"extra": 1}, {"queries": None}])
def test_a_dictionary_with_other_keys_is_refused(change):
    content = some_scores().to_dict() | change
    content = {key: value for key, value in content.items() if value is not None}
    with pytest.raises(DataError, match="scores must hold exactly"):
        Scores.from_dict(content)


def test_the_table_shows_every_score_and_every_count():
    file = io.StringIO()
    console = Console(width=60, file=file)
    console.print(some_scores().table())
    rows = [line.replace("│", " ").split() for line in file.getvalue().splitlines()]
    for row in (
        "recall@1 0.2500",
        "map@r 0.1250",
        "queries 1,200",
        "without a positive 3",
        "gallery 1,300",
        "classes 10",
    ):
        assert row.split() in rows


def test_the_table_shows_intervals_and_what_was_left_out():
    file = io.StringIO()
    console = Console(width=80, file=file)
    console.print(some_scores(intervals={"recall@1": (0.2, 0.3)}, left_out=("nmi",)).table())
    rows = [line.replace("│", " ").split() for line in file.getvalue().splitlines()]
    assert ["recall@1", "0.2500", "0.2000", "to", "0.3000"] in rows
    assert ["map@r", "0.1250"] in rows
    assert ["nmi", "left", "out"] in rows


def test_scores_written_before_there_were_intervals_are_read():
    content = some_scores().to_dict()
    del content["intervals"], content["left_out"]
    assert Scores.from_dict(content) == some_scores()


def test_names_are_read_from_a_string_or_a_list_in_the_order_asked():
    assert list(read_names("map@r, recall@3", (1,))[0]) == list(read_names(["map@r", "recall@3"], (1,))[0])
    assert list(read_names("precision", (1, 5))[0]) == ["precision@1", "precision@5"]
    recall = read_names("recall@10", (1,))[0]["recall@10"]
    assert isinstance(recall, Recall)
    assert recall.k == 10


def test_no_names_stand_for_every_registered_score_but_those_that_must_be_named():
    names = list(read_names(None, (1, 2))[0])
    assert names[:4] == ["recall@1", "recall@2", "precision@1", "precision@2"]
    found = {name if name in score else name.rpartition("@")[0] for name in names}
    assert set(score.names()) - found == {"intra_euclidean", "inter_euclidean", "intra_inter_euclidean"}


def test_what_scores_are_computed_from_stands_for_all_of_them():
    found, left_out = read_names("spectrum,recall@1", (1,))
    assert (list(found), left_out) == (["rho", "rho@2", "rho_reverse", "recall@1"], ())
    kept, left_out = read_names(None, (1,), "clusters,ap")
    assert left_out == ("nmi", "ami", "f1", "ap")
    assert not set(left_out) & set(kept)


def test_scores_that_were_not_asked_for_are_not_left_out():
    found, left_out = read_names("recall@1,ap", (1,), "nmi,ap")
    assert (list(found), left_out) == (["recall@1"], ("ap",))
    with pytest.raises(ConfigError, match="every named score is left out; got 'ap'"):
        read_names("ap", (1,), "ranks")
    with pytest.raises(ConfigError, match="unknown score 'nmii'; did you mean 'nmi'"):
        read_names(None, (1,), "nmii")


def test_a_score_with_an_optional_k_stands_for_itself_and_for_every_k():
    assert list(read_names("ndcg,ndcg@5", (1, 2))[0]) == ["ndcg", "ndcg@5"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("recal@1", r"unknown score 'recal@1'"),
        ("map@rr", "did you mean 'map@r'"),
        ("nmi@3", "did you mean 'nmi'"),
        ("recall@", "did you mean 'recall'"),
        ("recall@-1", "did you mean 'recall'"),
        ("recall@1.5", "did you mean 'recall'"),
        ("recall@0", "Recall: k must be an integer >= 1; got 0"),
        ("", "unknown score ''"),
        ([], "no score is named"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(names, message):
    with pytest.raises(ConfigError, match=message):
        read_names(names, (1,))
