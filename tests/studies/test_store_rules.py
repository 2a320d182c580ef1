"""The store's rules: who may write what, what is refused, and what a moved clock cannot do. Kills: tests/crash."""

import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from unseen.core.config import hash_of
from unseen.core.errors import StoreError
from unseen.core.processes import identity
from unseen.studies import database
from unseen.studies.plan import Cell
from unseen.studies.store import ClaimLostError, Store, create_store

ELSEWHERE = "0badcafe.77.5.0123456789ab"


def make_cells(number, method="margin", skip=""):
    configs = [{"number": position, "method": method} for position in range(number)]
    return [Cell(hash_of(config), "glyphs", "scripts", method, config["number"], config, skip) for config in configs]


class Clock:
    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    create_store(tmp_path / "study.sqlite")
    with Store(tmp_path / "study.sqlite", clock=clock) as opened:
        opened.set_plan(make_cells(3), {"name": "demo"})
        yield opened


@pytest.fixture
def dead():
    """The identity of a process that lived and died."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    owner = identity(child.pid)
    child.communicate()
    return owner


def test_cells_are_claimed_in_order_once_each(store):
    owner = identity()
    names = [store.claim(owner).name for _ in range(3)]
    assert names == [cell.name for cell in make_cells(3)]
    assert store.claim(owner) is None
    assert store.counts() == {"waiting": 0, "running": 3, "done": 0, "failed": 0, "skipped": 0}


def test_a_result_is_written_once_and_the_same_write_again_changes_nothing(store):
    owner = identity()
    name = store.claim(owner).name
    for _ in range(3):
        store.finish(name, owner, {"recall@1": 0.25, "names": ["é", "</script>"]})
    (result,) = store.results()
    assert result.content == {"recall@1": 0.25, "names": ["é", "</script>"]}
    assert result.cell == make_cells(3)[0]
    assert result.finished_at == "2027-01-15T08:00:00+00:00"
    with pytest.raises(ClaimLostError):
        store.finish(name, owner, {"recall@1": 0.99})
    assert store.results() == [result]


def test_a_late_writer_whose_cell_was_taken_is_refused(store, dead):
    late = store.claim(dead)
    owner = identity()
    taken = [store.claim(owner).name for _ in range(3)]
    assert late.name in taken
    for act in (lambda: store.finish(late.name, dead, {"who": "late"}), lambda: store.fail(late.name, dead, "late")):
        with pytest.raises(ClaimLostError, match=f"cell {late.name} is no longer claimed"):
            act()
    assert not store.beat(late.name, dead)
    store.finish(late.name, owner, {"who": "owner"})
    assert [result.content for result in store.results()] == [{"who": "owner"}]


def test_who_never_claimed_cannot_write(store):
    with pytest.raises(ClaimLostError, match="it is waiting"):
        store.finish(make_cells(1)[0].name, identity(), {})
    with pytest.raises(StoreError, match="no cell 0000"):
        store.finish("0000", identity(), {})


@pytest.mark.parametrize("content", [{"x": float("nan")}, {"x": object()}, {"x": "\ud800"}])
def test_a_result_that_is_not_json_is_refused_and_the_claim_stays(store, content):
    owner = identity()
    name = store.claim(owner).name
    with pytest.raises(StoreError, match="is not JSON"):
        store.finish(name, owner, content)
    store.finish(name, owner, {"x": 1})


def test_a_cell_fails_after_three_faults_and_not_before(store):
    store.set_plan(make_cells(1), {})
    owner = identity()
    states = []
    while (cell := store.claim(owner)) is not None:
        states.append(store.fail(cell.name, owner, "it broke"))
    assert states == ["waiting", "waiting", "failed"]
    (failed,) = store.cells()
    assert (failed.attempts, failed.faults) == (3, 3)
    assert failed.error == "it broke (the last of 3 attempts that went wrong)"


def test_a_final_fault_fails_at_once_with_its_sentence(store):
    owner = identity()
    assert store.fail(store.claim(owner).name, owner, "no file birds.csv", is_final=True) == "failed"
    assert [state.error for state in store.cells() if state.state == "failed"] == ["no file birds.csv"]


def test_a_cell_that_kills_its_processes_fails_after_three(store, dead):
    store.set_plan(make_cells(1), {})
    attempts = 0
    while store.claim(dead) is not None:
        attempts += 1
    assert attempts == 3
    (failed,) = store.cells()
    assert (failed.state, failed.faults) == ("failed", 3)
    assert "its process died" in failed.error


def test_a_dead_owner_that_the_caller_watches_is_left_to_the_caller(store, dead):
    name = store.claim(dead).name
    others = [store.claim(identity(), watched=[dead]).name for _ in range(2)]
    assert name not in others
    assert store.claim(identity(), watched=[dead]) is None
    store.finish(name, dead, {"who": "sent before it died"})
    assert [result.content for result in store.results()] == [{"who": "sent before it died"}]


def test_failed_cells_are_tried_again_only_when_asked(store):
    owner = identity()
    name = store.claim(owner).name
    store.fail(name, owner, "no", is_final=True)
    store.set_plan(make_cells(3), {"name": "demo"})
    assert store.counts()["failed"] == 1
    assert store.retry_failed() == 1
    again = next(state for state in store.cells() if state.cell.name == name)
    assert (again.state, again.faults, again.error) == ("waiting", 0, None)


def test_interrupted_cells_are_given_back_without_a_fault(store):
    owners = [identity(), identity()]
    for owner in owners:
        store.claim(owner)
    for owner in owners:
        store.release(owner)
    assert store.counts()["waiting"] == 3
    assert [state.faults for state in store.cells()] == [0, 0, 0]


def test_after_a_killed_runner_the_cells_of_dead_processes_and_of_another_boot_are_given_back(store, dead):
    taken = [store.claim(owner).name for owner in (ELSEWHERE, identity())]
    assert store.release_interrupted() == 1
    states = {state.cell.name: state for state in store.cells()}
    assert [states[name].state for name in taken] == ["waiting", "running"]
    assert store.claim(dead) is not None
    assert store.release_interrupted() == 1
    assert store.counts()["running"] == 1
    assert sum(state.faults for state in store.cells()) == 0


def test_a_cell_that_was_tried_less_often_goes_first(store):
    owner = identity()
    first = store.claim(owner)
    store.release(owner)
    assert store.claim(owner).name != first.name


@pytest.mark.parametrize("step", [86_400.0, -86_400.0, 3600.0, -3600.0])
def test_a_step_of_the_clock_takes_no_cell_from_a_living_process(store, clock, step):
    alive = identity()
    name = store.claim(alive).name
    clock.now += step
    other = identity()
    assert {store.claim(other).name, store.claim(other).name} == {cell.name for cell in make_cells(3)} - {name}
    assert store.claim(other) is None
    store.finish(name, alive, {"who": "first"})


@pytest.mark.parametrize(("step", "is_taken"), [(59.0, False), (61.0, True), (-59.0, False), (-61.0, True)])
def test_the_heartbeat_decides_for_processes_of_another_boot(store, clock, step, is_taken):
    store.set_plan(make_cells(1), {})
    store.claim(ELSEWHERE)
    clock.now += step
    assert (store.claim(identity(), stale_after=60) is not None) == is_taken


def test_a_heartbeat_keeps_a_claim_and_carries_progress(store, clock):
    store.set_plan(make_cells(1), {})
    name = store.claim(ELSEWHERE).name
    for _ in range(5):
        clock.now += 50
        assert store.beat(name, ELSEWHERE, {"done": 1, "total": 2})
        assert store.claim(identity(), stale_after=60) is None
    assert store.progress() == {name: {"done": 1, "total": 2}}
    store.finish(name, ELSEWHERE, {})
    assert store.progress() == {}


def test_sixty_cells_get_sixty_results_while_the_clock_jumps_about(store, clock):
    draws = random.Random(5)
    store.set_plan(make_cells(60), {})
    owners = [identity() for _ in range(3)]
    running: dict[str, Cell] = {}
    results = 0
    while results < 60:
        clock.now += draws.choice([-1e7, -100.0, 0.0, 100.0, 1e7])
        owner = draws.choice(owners)
        if owner in running:
            cell = running.pop(owner)
            store.finish(cell.name, owner, {"number": cell.config["number"]})
            results += 1
        elif (claimed := store.claim(owner)) is not None:
            running[owner] = claimed
    assert [result.content["number"] for result in store.results()] == list(range(60))
    assert sum(state.attempts for state in store.cells()) == 60


def test_a_changed_plan_keeps_the_results_of_the_other_and_finds_them_again(store):
    owner = identity()
    name = store.claim(owner).name
    store.finish(name, owner, {"plan": "first"})
    first = store.results()
    store.set_plan(make_cells(2, "triplet"), {"name": "second"})
    assert store.results() == []
    assert store.results(of_all_plans=True) == first
    assert len(store.cells()) == 2
    assert len(store.cells(of_all_plans=True)) == 5
    assert {store.claim(owner).method, store.claim(owner).method} == {"triplet"}
    assert store.claim(owner) is None, "cells of the earlier plan are not run"
    assert store.plan() == {"name": "second"}
    store.set_plan([*make_cells(2, "triplet"), *make_cells(3)], {"name": "both"})
    assert store.results() == first
    assert store.counts() == {"waiting": 2, "running": 2, "done": 1, "failed": 0, "skipped": 0}


def test_the_same_plan_twice_changes_nothing(store):
    before = store.cells(), store.plan()
    store.set_plan(make_cells(3), {"name": "demo"})
    assert (store.cells(), store.plan()) == before


def test_a_skipped_cell_waits_when_the_rule_is_gone(store):
    store.set_plan(make_cells(3, skip="not on this data"), {})
    assert store.claim(identity()) is None
    assert {(state.state, state.error) for state in store.cells()} == {("skipped", "not on this data")}
    assert store.cells()[0].cell.skip == "not on this data"
    store.set_plan(make_cells(3), {})
    assert store.counts()["waiting"] == 3


def test_a_cell_under_a_false_name_is_refused_and_nothing_changes(store):
    with pytest.raises(StoreError, match="is not named by the hash of its configuration"):
        store.set_plan([*make_cells(1, "new"), Cell("abc", "a", "b", "c", 0, {})], {"name": "false"})
    assert len(store.cells(of_all_plans=True)) == 3
    assert store.plan() == {"name": "demo"}


def test_errors_are_kept_without_the_home_folder_and_bounded(store, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    owner = identity()
    store.fail(store.claim(owner).name, owner, "no file /home/somebody/birds \ud800" + "x" * 5000, is_final=True)
    (error,) = [state.error for state in store.cells() if state.error]
    assert error.startswith("no file ~/birds ?x")
    assert len(error) == 2000


# Files that are not to be believed


def damage(store, statement):
    connection = sqlite3.connect(store.path)
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA user_version=2", "its schema is 2, this version knows 1. Use that version"),
        ("PRAGMA application_id=7", "is not a store of unseen"),
        ("PRAGMA user_version=0", "is not a store of unseen"),
        ("CREATE VIEW more AS SELECT * FROM cells", "has other tables"),
        ("CREATE TRIGGER bad AFTER INSERT ON results BEGIN DELETE FROM results; END", "has other tables"),
        ("DROP TABLE progress", "has other tables"),
        ("ALTER TABLE cells ADD COLUMN more TEXT", "has other tables"),
    ],
)
def test_a_foreign_newer_or_altered_file_is_refused(store, statement, message):
    damage(store, statement)
    with pytest.raises(StoreError) as refused:
        Store(store.path)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE cells SET seed = 7 WHERE seed = 1",
        "UPDATE cells SET attempts = 9 WHERE seed = 1",
        "UPDATE cells SET state = 'done' WHERE seed = 1",
        "UPDATE cells SET method = x'00ff' WHERE seed = 1",
        "UPDATE cells SET position = NULL WHERE seed = 1",
        "UPDATE cells SET attempts = 9e999 WHERE seed = 1",
        "UPDATE cells SET config = '{}' WHERE seed = 1",
    ],
)
def test_an_altered_cell_is_refused_by_name_and_never_sealed_anew(store, statement):
    damage(store, statement)
    name = make_cells(3)[1].name
    for act in (store.cells, store.results, lambda: store.set_plan(make_cells(3), {"name": "again"})):
        with pytest.raises(StoreError, match=f"cell '{name}' is not what was written"):
            act()


def test_an_altered_plan_is_refused(store):
    damage(store, "UPDATE meta SET value = '{}' WHERE key = 'plan'")
    with pytest.raises(StoreError, match="its plan is not what was written"):
        store.plan()


def test_what_is_no_database_is_refused(tmp_path):
    path = tmp_path / "study.sqlite"
    with pytest.raises(StoreError, match="does not exist"):
        Store(path)
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="is empty"):
        Store(path)
    path.write_text("a text that is longer than a header " * 20)
    with pytest.raises(StoreError, match="cannot be used"):
        Store(path)
    create_store(path)
    assert path.read_text().startswith("a text"), "what is there is not replaced"


def test_a_store_of_schema_1_still_opens(tmp_path):
    # Kept for ever: whoever changes the schema adds a file of the new number and upgrades from each of these.
    path = tmp_path / "study.sqlite"
    path.write_bytes((Path(__file__).parent / "assets" / "store-1.sqlite").read_bytes())
    with Store(path) as store:
        assert store.plan() == {"name": "old"}
        assert [result.content for result in store.results()] == [{"recall@1": 0.25}]
        assert store.counts() == {"waiting": 1, "running": 0, "done": 1, "failed": 1, "skipped": 0}


def test_a_network_file_system_is_refused(store, tmp_path, monkeypatch):
    for kind in ("nfs4", "cifs", "smb3", "fuse.sshfs", "fuse.glusterfs", "ceph"):
        monkeypatch.setattr(database, "file_system_of", lambda path, mounts, kind=kind: kind)
        for act in (lambda: Store(store.path), lambda: create_store(tmp_path / "new.sqlite")):
            with pytest.raises(StoreError, match=f"is on a network file system; got '{kind}'"):
                act()
    for kind in ("ext4", "overlay", "tmpfs", "fuse.ext4", ""):
        monkeypatch.setattr(database, "file_system_of", lambda path, mounts, kind=kind: kind)
        Store(store.path).close()


def test_the_longest_and_last_mount_point_counts():
    mounts = "a / ext4 rw\nb /data nfs rw\nc /data/local xfs rw\nd /data/local btrfs rw\n"
    found = [database.file_system_of(Path(path), mounts) for path in ("/x", "/data/y", "/data/local/z", "/database")]
    assert found == ["ext4", "nfs", "btrfs", "ext4"]


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        ((3, 40, 1), "DELETE"),
        ((3, 44, 5), "DELETE"),
        ((3, 44, 6), "WAL"),
        ((3, 45, 9), "DELETE"),
        ((3, 50, 6), "DELETE"),
        ((3, 50, 7), "WAL"),
        ((3, 51, 2), "DELETE"),
        ((3, 51, 3), "WAL"),
        ((3, 52, 0), "DELETE"),
        ((3, 53, 0), "WAL"),
    ],
)
def test_wal_is_used_only_where_its_bug_is_mended(version, mode):
    assert database.journal_mode(version) == mode


def test_a_store_keeps_its_content_over_a_change_of_journal(store, tmp_path, monkeypatch):
    owner = identity()
    name = store.claim(owner).name
    store.finish(name, owner, {"x": 1})
    before = store.results()
    path = store.path
    store.close()
    for mode in ("WAL", "DELETE"):
        monkeypatch.setattr(database, "journal_mode", lambda version, mode=mode: mode)
        with Store(path) as opened:
            assert opened.results() == before
            opened.snapshot(tmp_path / "copy.sqlite")
        with Store(tmp_path / "copy.sqlite") as copy:
            assert copy.results() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.sqlite", "study.sqlite"]


def test_a_store_that_cannot_be_made_is_an_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with pytest.raises(StoreError, match="cannot create"):
        create_store(blocked / "study.sqlite")
