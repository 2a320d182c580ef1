"""The store of a study: one file in which a result, once acknowledged, is never lost, doubled or altered."""

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from unseen.core.checks import check_count
from unseen.core.config import Record, canonical_json, hash_of
from unseen.core.errors import StoreError
from unseen.core.processes import is_alive, is_here
from unseen.studies.database import Database, Execute, Schema, create_database
from unseen.studies.plan import Cell

State = Literal["waiting", "running", "done", "failed", "skipped"]
STATES: tuple[State, ...] = ("waiting", "running", "done", "failed", "skipped")

_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, digest TEXT NOT NULL)",
    f"""CREATE TABLE cells (
        name TEXT PRIMARY KEY, position INTEGER, data TEXT NOT NULL, split TEXT NOT NULL, method TEXT NOT NULL,
        seed INTEGER NOT NULL, config TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN {STATES}), owner TEXT,
        attempts INTEGER NOT NULL, faults INTEGER NOT NULL, error TEXT, digest TEXT NOT NULL, heartbeat REAL)""",
    "CREATE INDEX cells_by_state ON cells (state, attempts, position)",
    """CREATE TABLE results (
        cell TEXT NOT NULL UNIQUE REFERENCES cells (name), content TEXT NOT NULL, finished_at TEXT NOT NULL,
        digest TEXT NOT NULL)""",
    "CREATE TABLE progress (cell TEXT PRIMARY KEY REFERENCES cells (name), content TEXT NOT NULL)",
)
SCHEMA = Schema(application=int.from_bytes(b"unsn", "big"), number=1, tables=_TABLES)
# A row of cells carries a digest of these columns; the heartbeat is no truth and stays outside.

_SEALED = (
    "name",
    "position",
    "data",
    "split",
    "method",
    "seed",
    "config",
    "state",
    "owner",
    "attempts",
    "faults",
    "error",
)
_LONGEST_ERROR = 2000


class ClaimLostError(StoreError):
    """A cell that another process took over: what the late one brings is refused."""


@dataclass(frozen=True)
class CellState:
    """A cell and how far it came; `faults` counts the attempts that ended by an unexpected error or a death."""

    cell: Cell
    state: State
    owner: str | None
    attempts: int
    faults: int
    error: str | None


@dataclass(frozen=True)
class Result:
    """What a cell gave, and when (UTC)."""

    cell: Cell
    content: Record
    finished_at: str


def create_store(path: Path) -> None:
    """Make an empty store if there is none."""
    made_by = canonical_json(version("unseen"))
    first = ("INSERT INTO meta VALUES ('created_by', ?, ?)", (made_by, _digest("created_by", made_by)))
    create_database(path, SCHEMA, rows=[first])


class Store:
    """An open store; its methods are short transactions, each whole or absent, safe among processes and threads.

    `max_attempts` is the number of faults after which a cell counts as failed. `clock` gives seconds since 1970.

    Raises:     StoreError if the file is missing, damaged, foreign, of a newer schema, or on a network file system
    """

    def __init__(self, path: Path, *, max_attempts: int = 3, clock: Callable[[], float] = time.time) -> None:
        check_count("Store", "max_attempts", max_attempts)
        self.path = path
        self.max_attempts = max_attempts
        self._clock = clock
        self._database = Database(path, SCHEMA)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # Cells

    def set_plan(self, cells: Sequence[Cell], plan: Mapping[str, Any]) -> None:
        """Make these cells the current plan: new ones wait, known ones keep their state and results.

        Cells of earlier plans stay with their results but are neither run nor reported until a plan names them again.
        Doing it twice changes nothing.
        """
        with self._database.writing() as execute:
            known = {row["name"]: row for row in execute("SELECT * FROM cells")}
            current = {cell.name for cell in cells}
            for row in known.values():
                if row["name"] not in current and row["position"] is not None:
                    self._change(execute, row, position=None)
            for position, cell in enumerate(cells):
                if hash_of(cell.config) != cell.name:
                    raise StoreError(f"cell {cell.name} ({cell}) does not bear the name of its configuration")
                places = {"position": position, "data": cell.data, "split": cell.split, "method": cell.method}
                row = known.get(cell.name)
                if row is None:
                    config = canonical_json(cell.config)
                    state, error = ("skipped", cell.skip) if cell.skip else ("waiting", None)
                    full = dict.fromkeys(_SEALED) | places | {"name": cell.name, "seed": cell.seed, "config": config}
                    full |= {"state": state, "error": error, "attempts": 0, "faults": 0}
                    execute(
                        f"INSERT INTO cells ({', '.join(_SEALED)}, digest) VALUES ({'?,' * len(_SEALED)} ?)",  # noqa: S608
                        (*(full[key] for key in _SEALED), _digest_of_row(full)),
                    )
                elif cell.skip and row["state"] in ("waiting", "failed", "skipped"):
                    self._change(execute, row, **places, state="skipped", error=cell.skip)
                elif not cell.skip and row["state"] == "skipped":
                    self._change(execute, row, **places, state="waiting", error=None)
                else:
                    self._change(execute, row, **places)
            for key, value in (("plan", dict(plan)), ("plan_hash", hash_of(plan))):
                text = canonical_json(value)
                execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (key, text, _digest(key, text)))

    def claim(self, owner: str, *, stale_after: float = 60.0, watched: Collection[str] = ()) -> Cell | None:
        """Take the next cell of the plan for a process (`processes.identity`), or None if no cell waits.

        A running cell whose process died is taken back first; that counts as a fault. For a process of this boot only
        its life counts, so a step of the clock cannot take a cell from it; for any other, `stale_after` seconds
        without a heartbeat do (a heartbeat far in the future means that the clock was set back).

        Owners in `watched` are left alone: the caller looks after them and may yet hold the result of one that died.
        """
        now = self._clock()
        with self._database.writing() as execute:
            for row in execute("SELECT * FROM cells WHERE state = 'running'").fetchall():
                if row["owner"] in watched:
                    continue
                if self._is_dead(row) or (
                    not is_here(row["owner"]) and abs(now - (row["heartbeat"] or 0)) > stale_after
                ):
                    self._count_fault(execute, row, "its process died", is_final=False)
            waiting = "state = 'waiting' AND position IS NOT NULL ORDER BY attempts, position LIMIT 1"
            row = execute(f"SELECT * FROM cells WHERE {waiting}").fetchone()  # noqa: S608
            if row is None:
                return None
            cell = self._cell(row)
            self._change(execute, row, state="running", owner=owner, attempts=row["attempts"] + 1)
            execute("UPDATE cells SET heartbeat = ? WHERE name = ?", (now, cell.name))
            return cell

    def beat(self, name: str, owner: str, progress: Mapping[str, Any] | None = None) -> bool:
        """Say that a cell is being worked on, and how far it is; False if the claim is no longer the owner's."""
        with self._database.writing() as execute:
            condition = "WHERE name = ? AND owner = ? AND state = 'running'"
            changed = execute(f"UPDATE cells SET heartbeat = ? {condition}", (self._clock(), name, owner)).rowcount  # noqa: S608
            if changed and progress is not None:
                execute("INSERT OR REPLACE INTO progress VALUES (?, ?)", (name, canonical_json(dict(progress))))
            return bool(changed)

    def finish(self, name: str, owner: str, content: Mapping[str, Any]) -> None:
        """Write a cell's result and mark it done, in one transaction; once this returns the result is durable.

        Doing it twice with the same content changes nothing.

        Raises:     StoreError if the claim was taken by another, or the content is not JSON
        """
        try:
            text = canonical_json(dict(content))
            text.encode()
        except (TypeError, ValueError) as problem:
            raise StoreError(f"the result of cell {name} is not JSON ({problem})") from None
        with self._database.writing() as execute:
            row = self._row(execute, name)
            if row["state"] == "done" and row["owner"] == owner:
                known = execute("SELECT content FROM results WHERE cell = ?", (name,)).fetchone()
                if known is not None and known["content"] == text:
                    return
            self._check_claim(row, owner)
            finished_at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
            execute(
                "INSERT INTO results VALUES (?, ?, ?, ?)", (name, text, finished_at, _digest(name, text, finished_at))
            )
            execute("DELETE FROM progress WHERE cell = ?", (name,))
            self._change(execute, row, state="done", error=None)

    def fail(self, name: str, owner: str, error: str, *, is_final: bool = False) -> State:
        """Count a fault of a cell: it waits again, or has failed if that is final or the faults are too many."""
        with self._database.writing() as execute:
            row = self._row(execute, name)
            self._check_claim(row, owner)
            return self._count_fault(execute, row, error, is_final=is_final)

    def abandon(self, owner: str, error: str) -> list[str]:
        """Count a fault for each cell that a dead owner held; gives the names of those cells."""
        with self._database.writing() as execute:
            rows = execute("SELECT * FROM cells WHERE state = 'running' AND owner = ?", (owner,)).fetchall()
            for row in rows:
                self._count_fault(execute, row, error, is_final=False)
            return [row["name"] for row in rows]

    def release(self, owner: str) -> None:
        """Give back what an owner holds without counting a fault: it was interrupted, the cell did no wrong."""
        with self._database.writing() as execute:
            for row in execute("SELECT * FROM cells WHERE state = 'running' AND owner = ?", (owner,)).fetchall():
                self._change(execute, row, state="waiting", owner=None)

    def release_interrupted(self) -> int:
        """Give back, without a fault, every running cell whose process is gone; gives how many run on elsewhere.

        Only for a runner that holds the lock of the study: it knows that processes of another boot are gone too.
        """
        with self._database.writing() as execute:
            rows = execute("SELECT * FROM cells WHERE state = 'running'").fetchall()
            gone = [row for row in rows if self._is_dead(row) or not is_here(row["owner"])]
            for row in gone:
                self._change(execute, row, state="waiting", owner=None)
            return len(rows) - len(gone)

    def retry_failed(self) -> int:
        """Let the failed cells of the plan wait again with no faults; gives how many there were."""
        with self._database.writing() as execute:
            rows = execute("SELECT * FROM cells WHERE state = 'failed' AND position IS NOT NULL").fetchall()
            for row in rows:
                self._change(execute, row, state="waiting", owner=None, faults=0, error=None)
            return len(rows)

    # Reading

    def cells(self, *, of_all_plans: bool = False) -> list[CellState]:
        """The cells of the current plan in its order; with `of_all_plans` those of earlier plans after them."""
        with self._database.reading() as execute:
            rows = execute("SELECT * FROM cells ORDER BY position IS NULL, position, name").fetchall()
            states = [(row["position"], self._state(row)) for row in rows]  # verified before they are chosen from
        return [state for position, state in states if of_all_plans or position is not None]

    def results(self, *, of_all_plans: bool = False) -> list[Result]:
        """The results of the current plan in its order, each verified.

        Raises:     StoreError that names the cell if a row is not what was written
        """
        with self._database.reading() as execute:
            rows = execute(
                "SELECT cells.*, content, finished_at, results.digest AS seal "
                "FROM cells LEFT JOIN results ON cell = name ORDER BY position IS NULL, position, name"
            ).fetchall()
            verified = [(row["position"], self._result(row)) for row in rows]
        return [result for position, result in verified if result and (of_all_plans or position is not None)]

    def counts(self) -> dict[State, int]:
        """How many cells of the current plan are in each state."""
        with self._database.reading() as execute:
            rows = execute("SELECT state, count(*) FROM cells WHERE position IS NOT NULL GROUP BY state").fetchall()
        return dict.fromkeys(STATES, 0) | {row[0]: row[1] for row in rows}

    def plan(self) -> Record:
        """The current plan as `set_plan` was given it; empty before the first."""
        with self._database.reading() as execute:
            found = execute("SELECT * FROM meta WHERE key = 'plan'").fetchone()
            if found is None:
                return {}
            if not _is_sealed(found["digest"], "plan", found["value"]):
                raise StoreError(f"{self.path} is damaged: its plan is not what was written")
            return dict(json.loads(found["value"]))

    def progress(self) -> dict[str, Record]:
        """How far the running cells said they are: for the eye only, never for a decision."""
        with self._database.reading() as execute:
            rows = execute(
                "SELECT cell, progress.content FROM progress JOIN cells ON cell = name AND state = 'running'"
            )
            return {row["cell"]: json.loads(row["content"]) for row in rows.fetchall()}

    def snapshot(self, path: Path) -> None:
        """Copy the store as it is at one instant, for reports: a long read of the copy holds up nobody."""
        self._database.copy_to(path)

    # Inside

    def _row(self, execute: Execute, name: str) -> sqlite3.Row:
        row: sqlite3.Row | None = execute("SELECT * FROM cells WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise StoreError(f"{self.path} has no cell {name}")
        return row

    def _change(self, execute: Execute, row: sqlite3.Row, **columns: Any) -> None:
        self._cell(row)  # what is damaged must not get a fresh digest
        new = {key: row[key] for key in _SEALED} | columns
        if any(new[key] != row[key] for key in columns):
            assignments = ", ".join(f"{name} = ?" for name in (*columns, "digest"))
            execute(
                f"UPDATE cells SET {assignments} WHERE name = ?",  # noqa: S608
                (*columns.values(), _digest_of_row(new), row["name"]),
            )

    def _count_fault(self, execute: Execute, row: sqlite3.Row, error: str, *, is_final: bool) -> State:
        faults = row["faults"] + 1
        state: State = "failed" if is_final or faults >= self.max_attempts else "waiting"
        if state == "failed" and not is_final:
            error = f"{error} (the last of {faults} attempts that went wrong)"
        self._change(execute, row, state=state, faults=faults, error=_fit_to_keep(error))
        return state

    def _check_claim(self, row: sqlite3.Row, owner: str) -> None:
        self._cell(row)
        if row["state"] != "running" or row["owner"] != owner:
            raise ClaimLostError(f"cell {row['name']} is no longer claimed by this process; it is {row['state']}")

    def _is_dead(self, row: sqlite3.Row) -> bool:
        self._cell(row)
        return is_here(row["owner"]) and not is_alive(row["owner"])

    def _cell(self, row: sqlite3.Row) -> Cell:
        if not _is_sealed(row["digest"], *(row[key] for key in _SEALED)):
            raise StoreError(f"{self.path} is damaged: cell {row['name']!r} is not what was written")
        skip = row["error"] if row["state"] == "skipped" else ""
        config = json.loads(row["config"])
        return Cell(row["name"], row["data"], row["split"], row["method"], row["seed"], config, skip)

    def _state(self, row: sqlite3.Row) -> CellState:
        cell = self._cell(row)
        return CellState(cell, row["state"], row["owner"], row["attempts"], row["faults"], row["error"])

    def _result(self, row: sqlite3.Row) -> Result | None:
        cell = self._cell(row)
        if (row["state"] == "done") != (row["content"] is not None):
            raise StoreError(f"{self.path} is damaged: cell {cell.name} ({cell}) and its result do not belong together")
        if row["content"] is None:
            return None
        if not _is_sealed(row["seal"], cell.name, row["content"], row["finished_at"]):
            raise StoreError(f"{self.path} is damaged: the result of cell {cell.name} ({cell}) is not what was written")
        return Result(cell, json.loads(row["content"]), row["finished_at"])


def _digest(*content: Any) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def _digest_of_row(row: Mapping[str, Any]) -> str:
    return _digest(*(row[key] for key in _SEALED))


def _is_sealed(digest: Any, *content: Any) -> bool:
    try:
        return bool(_digest(*content) == digest)
    except (TypeError, ValueError):  # a damaged column may come back as bytes or as infinity
        return False


def _fit_to_keep(error: str) -> str:
    """An error without the home folder of whoever ran it, of bounded length, and valid Unicode."""
    home = os.path.expanduser("~")
    text = error if home in ("~", "/") else error.replace(home, "~")
    return text.encode("utf-8", "replace").decode()[:_LONGEST_ERROR]
