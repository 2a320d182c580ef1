"""`unseen splits build` and `unseen splits show` as people type them."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.helpers.many_groups import grouped_catalogue, write_features
from tests.helpers.two_groups import gaussian_catalogue
from unseen.analyses.shift import ladder_figures
from unseen.cli.app import app
from unseen.core.errors import ConfigError, UnseenError
from unseen.shifts import read_ladder


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "160")
    made = gaussian_catalogue(mixed=0.3, per_class=8)
    np.savez("groups.npz", features=made.reader.features, labels=np.array(made.class_names)[made.labels])


BUILD = ("--data", "features=groups.npz", "--start", "first:validation=0", "--swaps", "2", "--easier", "2")
SHORT = (*BUILD, "--harder", "3", "--removals", "2")


def unseen(*arguments):
    """Standard output of a command, run in this process."""
    done = CliRunner().invoke(app, ["splits", *arguments])
    if isinstance(done.exception, UnseenError):
        raise done.exception
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    return done.stdout


def test_a_ladder_is_built_read_and_shown(tmp_path, monkeypatch):
    out = unseen("build", *SHORT, "--rungs", "5", "--out", "ladder.json")
    ladder = read_ladder(tmp_path / "ladder.json")
    assert len(ladder.rungs) == 5
    assert f"{ladder.rungs[4].class_distance:.2f}" in out
    assert ladder.data["record"]["path"] == "groups.npz"
    # The real maps take a minute to compile; where they are drawn and of what is tested here.
    seen = {}

    def flat(features):
        seen["points"] = features.shape
        return features[:, :2], "two dimensions"

    monkeypatch.setattr(ladder_figures, "PROJECTIONS", {"flat": flat})
    found = json.loads(unseen("show", "ladder.json", "--json", "--out", "pictures"))
    assert [rung["step"] for rung in found["rungs"]] == [rung.step for rung in ladder.rungs]
    assert seen == {"points": (320, 6)}
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == [
        "ladder-distances.png",
        "ladder-map-flat.png",
    ]


def test_the_same_command_writes_the_same_bytes(tmp_path):
    for name in ("one.json", "two.json"):
        unseen("build", *SHORT, "--steps", "-2,0,R2", "--out", name)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert [rung.step for rung in read_ladder(tmp_path / "one.json").rungs] == ["-2", "0", "R2"]


def test_without_maps_no_data_is_needed(tmp_path):
    unseen("build", *SHORT, "--rungs", "3", "--out", "ladder.json")
    (tmp_path / "groups.npz").unlink()
    assert "rung" in unseen("show", "ladder.json", "--no-maps")
    assert (tmp_path / "ladder-distances.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--out", "ladder.txt"), "--out must end in .json"),
        (("--out", "l.json", "--rungs", "3", "--steps", "0"), "--rungs and --steps exclude each other"),
        (("--out", "l.json", "--steps", "published"), "no ladder of features was published"),
        (("--out", "l.json", "--distances", "near"), "--distances must be numbers; got 'near'"),
    ],
)
def test_what_cannot_be_built_is_refused_in_a_sentence(tmp_path, arguments, words):
    with pytest.raises(ConfigError, match=words):
        unseen("build", *SHORT, *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["groups.npz"]


@pytest.fixture
def named_groups(tmp_path):
    write_features(tmp_path / "named.npz", grouped_catalogue())
    return ("--data", "features=named.npz", "--by", "groups")


def test_groups_of_classes_become_a_ladder_that_is_shown(tmp_path, named_groups):
    out = unseen("build", *named_groups, "--out", "ladder.json")
    ladder = read_ladder(tmp_path / "ladder.json")
    assert [rung.step for rung in ladder.rungs][::3] == ["mixed", "far"]
    assert all(rung.step in out for rung in ladder.rungs)
    assert "middle" in unseen("show", "ladder.json", "--no-maps")
    assert (tmp_path / "ladder-distances.png").exists()
    unseen("build", *named_groups, "--rungs", "3", "--out", "three.json")
    assert len(read_ladder(tmp_path / "three.json").rungs) == 3
    unseen("build", *named_groups, "--steps", "mixed, middle", "--out", "named.json")
    assert [rung.step for rung in read_ladder(tmp_path / "named.json").rungs] == ["mixed", "middle"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--by", "colour"), "--by must be one of 'swaps', 'groups'; got 'colour'"),
        (("--start", "first"), "--start is for --by swaps; got 'first'. Leave --start out"),
        (("--harder", "3"), "--harder is for --by swaps"),
        (("--distances", "3,4"), "--distances is for --by swaps"),
        (("--every-step",), "--every-step is for --by swaps"),
        (("--steps", "tiny"), "group 'tiny' is too small"),
        (("--data", "features=groups.npz"), "its classes have no groups"),
    ],
)
def test_what_no_ladder_by_groups_has_is_refused(tmp_path, named_groups, arguments, words):
    with pytest.raises(UnseenError, match=words):
        unseen("build", *named_groups, *arguments, "--out", "ladder.json")
    assert not (tmp_path / "ladder.json").exists()
