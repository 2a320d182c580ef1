"""A ladder's file comes back the same, is read by anyone, and is refused once anything in it is changed."""

import hashlib
import json

import pytest

from tests.helpers.two_groups import gaussian_catalogue, ladder_source, start_of
from unseen.core.config import canonical_json
from unseen.core.errors import DataError
from unseen.shifts import LadderSettings, SwapSchedule, build_ladder, read_ladder, split_of_rung, write_ladder


@pytest.fixture(scope="module")
def ladder():
    catalogue = gaussian_catalogue()
    settings = LadderSettings(schedule=SwapSchedule(swaps=2, easier=0, harder=3, removals=2), rungs=4)
    return build_ladder(ladder_source(catalogue), start_of(catalogue), settings)


@pytest.fixture
def path(ladder, tmp_path):
    write_ladder(tmp_path / "ladder.json", ladder)
    return tmp_path / "ladder.json"


def test_what_is_written_is_read(ladder, path):
    assert read_ladder(path) == ladder
    assert sorted(path.parent.iterdir()) == [path]


def test_anyone_can_read_it(ladder, path):
    content = json.loads(path.read_text(encoding="utf-8"))
    assert (content["format"], content["version"], content["hash"]) == ("unseen ladder", 1, ladder.hash)
    assert content["rungs"][0]["step"] == "0"
    assert len(content["hash"]) == 64
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines < 3 * len(ladder.classes), "a line for each class, not for each number"


CHANGES = {
    "a class on the other side": lambda content: content["rungs"][1]["train"].append(content["rungs"][1]["test"].pop()),
    "a distance": lambda content: content["rungs"][0].update(class_distance=1.0),
    "a step": lambda content: content["steps"].pop(),
    "an image": lambda content: content["classes"]["class 00"].pop(),
    "the seed": lambda content: content["settings"].update(seed=7),
    "a support": lambda content: content["support"]["class 00"][0].reverse(),
    "the hash": lambda content: content.update(hash="0" * 64),
    "something more": lambda content: content.update(more=1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_any_part_is_noticed(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="was changed after it was written"):
        read_ladder(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a ladder of splits"),
        ('{"format": "other"}', "not a ladder of splits"),
        ('{"format": "unseen ladder", "version": 2}', "ladder of version 2. This version of unseen reads version 1"),
        ('{"format": "unseen ladder", "version": 1}', "was changed"),
    ],
)
def test_what_is_no_ladder_is_refused(tmp_path, content, words):
    (tmp_path / "ladder.json").write_text(content)
    with pytest.raises(DataError, match=words):
        read_ladder(tmp_path / "ladder.json")
    with pytest.raises(DataError, match="no file"):
        read_ladder(tmp_path / "nothing.json")


def written_as_true(path, content):
    """A file whose hash fits its content, as a forger would write it."""
    body = {key: value for key, value in content.items() if key not in ("format", "version", "hash")}
    path.write_text(json.dumps({**content, "hash": hashlib.sha256(canonical_json(body).encode()).hexdigest()}))


FORGED = {
    "occurs twice on rung 1": lambda content: content["rungs"][0]["test"].append(content["rungs"][0]["train"][0]),
    "class 'emu' that the ladder does not list": lambda content: content["rungs"][0]["test"].append("emu"),
    "the support of class 'class 00' names an image twice": lambda content: content["support"].update(
        {"class 00": [[1, 1]]}
    ),
    "or one that does not exist": lambda content: content["support"].update({"class 00": [[99]]}),
    "rungs: Input should be a valid list": lambda content: content.update(rungs="none"),
    "rungs.0.train": lambda content: content["rungs"][0].update(train=None),
    "more: Unexpected keyword argument": lambda content: content.update(more=1),
}


@pytest.mark.parametrize(("words", "change"), FORGED.items(), ids=FORGED)
def test_a_ladder_that_contradicts_itself_is_refused_though_its_hash_is_right(path, words, change):
    content = json.loads(path.read_text())
    change(content)
    written_as_true(path, content)
    with pytest.raises(DataError, match=words):
        read_ladder(path)


@pytest.mark.parametrize("number", [0, 5, -1])
def test_a_rung_that_is_not_there_is_refused(ladder, number):
    with pytest.raises(DataError, match=f"rungs 1 to 4; got {number}"):
        split_of_rung(ladder, gaussian_catalogue(), number)
