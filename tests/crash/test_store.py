"""An acknowledged result is never lost, never doubled; a damaged store is refused, never believed."""

import shutil
import sqlite3
import threading

import pytest

from tests.crash.harness import dies_at, fresh_draws, killed_together
from unseen.core.config import hash_of
from unseen.core.errors import StoreError
from unseen.core.processes import identity
from unseen.studies.plan import Cell
from unseen.studies.store import Store, create_store


def make_cells(number, purpose="a"):
    configs = [{"number": position, "purpose": purpose, "filling": "x" * 40} for position in range(number)]
    return [Cell(hash_of(config), "glyphs", "characters", purpose, config["number"], config) for config in configs]


def content_of(name):
    return {"recall@1": 0.5, "cell": name, "curve": [0.1, 0.2, 0.3], "words": "für " + name}


def make_store(path, number, *, finished=0):
    create_store(path)
    with Store(path) as store:
        store.set_plan(make_cells(number), {"name": "test"})
        owner = identity()
        for _ in range(finished):
            name = claimed(store, owner).name
            store.finish(name, owner, content_of(name))
    return path


def claimed(store, owner):
    """A cell that waits; there is one."""
    cell = store.claim(owner)
    assert cell is not None
    return cell


def writer_of(path):
    def write(acknowledge):
        owner = identity()
        with Store(path, max_attempts=1000) as store:
            while (cell := store.claim(owner)) is not None:
                store.finish(cell.name, owner, content_of(cell.name))
                acknowledge(cell.name)

    return write


def read_for_ever_of(path):
    def read(acknowledge):
        with Store(path) as store:
            while True:
                store.counts()
                assert all(result.content == content_of(result.cell.name) for result in store.results())

    return read


@pytest.mark.crash
def test_no_acknowledged_result_is_lost_or_torn_when_two_writers_are_killed_30_times(tmp_path):
    draws = fresh_draws()
    path = make_store(tmp_path / "study.sqlite", 800)
    acknowledged = []
    for _ in range(30):
        children = [writer_of(path), writer_of(path), read_for_ever_of(path)]
        first, second, _ = killed_together(children, draws.uniform(0.02, 0.5))
        acknowledged += first + second
        # Opening runs the integrity check; reading verifies every digest and that done and result go together.
        with Store(path) as store:
            results = {result.cell.name: result.content for result in store.results()}
        assert set(acknowledged) <= results.keys()
        assert all(content == content_of(name) for name, content in results.items())
    assert len(acknowledged) == len(set(acknowledged)), "a result was acknowledged twice"
    assert len(results) - len(acknowledged) <= 60, "at most one unacknowledged result for each kill"
    assert len(acknowledged) > 30
    print(f"{len(acknowledged)} acknowledged in 30 rounds")


@pytest.mark.crash
def test_a_plan_of_five_rows_is_whole_or_absent_when_its_writers_are_killed(tmp_path):
    draws = fresh_draws()
    path = make_store(tmp_path / "study.sqlite", 1)

    def planner_of(purpose):
        def write(acknowledge):
            with Store(path) as store:
                for number in range(10_000):
                    store.set_plan(make_cells(5, f"{purpose}-{number}"), {"name": f"{purpose}-{number}"})
                    acknowledge(f"{purpose}-{number}")

        return write

    for turn in range(10):
        lists = killed_together([planner_of(f"{turn}-a"), planner_of(f"{turn}-b")], draws.uniform(0.05, 0.2))
        with Store(path) as store:
            current = store.cells()
            assert {state.cell.method for state in current} <= {store.plan()["name"], "a"}
            assert len(current) in (1, 5)
            every = [state.cell.method for state in store.cells(of_all_plans=True)]
        for method in set(every) - {"a"}:
            assert every.count(method) == 5
        for names in lists:
            assert set(names) <= set(every)


@pytest.mark.parametrize("point", ["store.before_commit", "store.after_commit"])
def test_a_death_at_the_commit_leaves_all_of_a_result_or_nothing(tmp_path, point):
    path = make_store(tmp_path / "study.sqlite", 2)
    with Store(path) as store:
        owner = identity()
        cell = claimed(store, owner)

    def finish(acknowledge):
        with Store(path) as store:
            store.finish(cell.name, owner, content_of(cell.name))

    dies_at(point, finish)
    with Store(path) as store:
        assert len(store.results()) == (point == "store.after_commit")
        assert store.counts()["done"] == len(store.results())
        store.finish(cell.name, owner, content_of(cell.name))
        assert [result.content for result in store.results()] == [content_of(cell.name)]


def test_a_death_before_the_store_has_its_name_leaves_no_store(tmp_path):
    path = tmp_path / "study.sqlite"
    dies_at("store.before_link", lambda acknowledge: create_store(path))
    assert not path.exists()
    make_store(path, 3, finished=3)
    with Store(path) as store:
        assert len(store.results()) == 3


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    path = make_store(tmp_path_factory.mktemp("store") / "study.sqlite", 40, finished=25)
    with Store(path) as store:
        assert len(store.results()) == 25
        return path, everything_in(store)


def everything_in(store):
    return store.plan(), store.cells(of_all_plans=True), store.results(of_all_plans=True)


def test_a_store_with_a_flipped_bit_tells_the_truth_or_is_refused(tmp_path, healthy):
    path, truth = healthy
    draws = fresh_draws()
    whole = path.read_bytes()
    # The header and the beginnings of pages hold what SQLite steers by: they are always among the places.
    places = [*range(0, 100, 5), *range(0, len(whole), 4096), *(draws.randrange(len(whole)) for _ in range(120))]
    refused = 0
    for number, place in enumerate(places):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << draws.randrange(8)
        refused += refused_or_true(tmp_path / f"{number}.sqlite", bytes(damaged), truth, f"byte {place}")
    print(f"{refused} of {len(places)} refused")
    assert refused > len(places) / 4


def test_a_schema_that_is_not_even_text_is_refused(tmp_path, healthy):
    # SQLite quotes the damaged schema in its message, which then cannot be decoded.
    path, truth = healthy
    whole = path.read_bytes()
    start = whole.index(b"CREATE TABLE")
    for place in range(start, start + 60):
        damaged = bytearray(whole)
        damaged[place] ^= 0x80
        assert refused_or_true(tmp_path / "study.sqlite", bytes(damaged), truth, f"byte {place}")


def test_a_truncated_store_is_refused(tmp_path, healthy):
    path, truth = healthy
    draws = fresh_draws()
    whole = path.read_bytes()
    sizes = [0, 1, 99, 100, 4096, len(whole) - 4096, len(whole) - 1, *(draws.randrange(len(whole)) for _ in range(60))]
    for number, size in enumerate(sizes):
        assert refused_or_true(tmp_path / f"{number}.sqlite", whole[:size], truth, f"{size} bytes")


def refused_or_true(path, content, truth, what):
    path.write_bytes(content)
    try:
        with Store(path) as store:
            assert everything_in(store) == truth, f"{what}: untrue content was believed"
        return False
    except StoreError:
        return True
    finally:
        path.unlink()


def test_an_altered_result_is_refused_by_the_name_of_its_cell(tmp_path, healthy):
    copy = tmp_path / "study.sqlite"
    shutil.copy(healthy[0], copy)
    name = healthy[1][2][7].cell.name
    connection = sqlite3.connect(copy)
    connection.execute("UPDATE results SET content = replace(content, '0.5', '0.6') WHERE cell = ?", (name,))
    connection.commit()
    connection.close()
    with Store(copy) as store, pytest.raises(StoreError, match=f"the result of cell {name}"):
        store.results()


@pytest.mark.crash
def test_a_snapshot_taken_while_another_process_writes_is_a_whole_store(tmp_path):
    path = make_store(tmp_path / "study.sqlite", 1000)
    sizes = []
    with Store(path) as store:

        def take():
            store.snapshot(tmp_path / "copy.sqlite")
            with Store(tmp_path / "copy.sqlite") as copy:
                results = copy.results()
                assert all(result.content == content_of(result.cell.name) for result in results)
                sizes.append(len(results))

        acknowledged = killed_together([writer_of(path)], 1.0, meanwhile=take)[0]
    assert len(sizes) > 1
    assert sizes == sorted(sizes)
    assert sizes[-1] <= len(acknowledged) + 1
    assert not list(tmp_path.glob(".tmp-*"))


def test_threads_of_one_process_share_a_store(tmp_path):
    path = make_store(tmp_path / "study.sqlite", 60)
    taken = []
    with Store(path) as store:

        def work():
            owner = identity()
            while (cell := store.claim(owner)) is not None:
                store.finish(cell.name, owner, content_of(cell.name))
                taken.append(cell.name)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == len(set(taken)) == len(store.results()) == 60
