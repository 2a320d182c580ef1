"""The result of an evaluation: a read-only mapping that survives JSON and other processes."""

import copy
import io
import json

import pytest
from rich.console import Console

from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import score
from unseen.evaluation.scores import Scores, read_names


def some_scores(**changes):
    content = {
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
    console = Console(width=60, file=io.StringIO())
    console.print(some_scores().table())
    rows = [line.replace("│", " ").split() for line in console.file.getvalue().splitlines()]
    for row in (
        "recall@1 0.2500",
        "map@r 0.1250",
        "queries 1,200",
        "without a positive 3",
        "gallery 1,300",
        "classes 10",
    ):
        assert row.split() in rows


def test_names_are_read_from_a_text_or_a_list_in_the_order_asked():
    assert list(read_names("map@r, recall@3", (1,))) == list(read_names(["map@r", "recall@3"], (1,)))
    assert list(read_names("precision", (1, 5))) == ["precision@1", "precision@5"]
    assert read_names("recall@10", (1,))["recall@10"].k == 10


def test_no_names_stand_for_every_registered_score():
    names = list(read_names(None, (1, 2)))
    assert names[:4] == ["recall@1", "recall@2", "precision@1", "precision@2"]
    assert {name if name in score else name.rpartition("@")[0] for name in names} == set(score.names())


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("recal@1", r"unknown score 'recal@1'"),
        ("map@rr", "did you mean 'map@r'"),
        ("nmi@3", "did you mean 'nmi'"),
        ("recall@", "did you mean 'recall'"),
        ("recall@-1", "did you mean 'recall'"),
        ("recall@1.5", "did you mean 'recall'"),
        ("recall@0", "Recall: k must be a whole number >= 1; got 0"),
        ("", "unknown score ''"),
        ([], "no score is asked for"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(names, message):
    with pytest.raises(ConfigError, match=message):
        read_names(names, (1,))
