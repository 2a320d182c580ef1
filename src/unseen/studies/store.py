"""The store of a study: one SQLite file in which a result, once acknowledged, is never lost, duplicated or altered.

It is the truth about a study: reports and analyses read the results of cells from here, never the `result.json` in a
cell's folder, which is that run's own record.
"""

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
from typing import Literal

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
SCHEMA = Schema(application=int.from_bytes(b"unsn", "big"), version=1, tables=_TABLES)

_SEALED = (
    "name", "position", "data", "split", "method", "seed", "config", "state", "owner", "attempts", "faults", "error"
)  # fmt: skip
"""The columns of a cell that its digest covers; the heartbeat decides nothing lasting and is left out."""

_MAX_ERROR_LENGTH = 2000


class ClaimLostError(StoreError):
    """A cell that another process took over: the result of the late one is refused."""


@dataclass(frozen=True)
class CellState:
    """A cell and its state; `faults` counts the attempts that ended with an unexpected error or a dead process."""

    cell: Cell
    state: State
    owner: str | None
    attempts: int
    faults: int
    error: str | None


@dataclass(frozen=True)
class Result:
    """What a cell returned, and when (UTC)."""

    cell: Cell
    content: Record
    finished_at: str


def create_store(path: Path) -> None:
    """Create an empty store if there is none."""
    made_by = canonical_json(version("unseen"))
    first_row = ("INSERT INTO meta VALUES ('created_by', ?, ?)", (made_by, _digest("created_by", made_by)))
    create_database(path, SCHEMA, first_row)


class Store:
    """An open store. Its methods are short atomic transactions, safe among processes and threads.

    `max_attempts` is the number of faults after which a cell counts as failed. `clock` returns seconds since 1970.

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

    def set_plan(self, cells: Sequence[Cell], plan: Mapping[str, object]) -> None:
        """Make these cells the current plan: new ones wait, known ones keep their state and results.

        Cells of earlier plans keep their results but are neither run nor reported until a plan names them again.
        Calling it twice changes nothing.
        """
        with self._database.writing() as execute:
            known = {row["name"]: row for row in execute("SELECT * FROM cells")}
            current = {cell.name for cell in cells}
            for row in known.values():
                if row["name"] not in current and row["position"] is not None:
                    self._change(execute, row, position=None)
            for position, cell in enumerate(cells):
                if hash_of(cell.config) != cell.name:
                    raise StoreError(f"cell {cell.name} ({cell}) is not named by the hash of its configuration")
                labels = {"position": position, "data": cell.data, "split": cell.split, "method": cell.method}
                row = known.get(cell.name)
                if row is None:
                    self._insert(execute, cell, labels)
                elif cell.skip and row["state"] in ("waiting", "failed", "skipped"):
                    self._change(execute, row, **labels, state="skipped", error=cell.skip)
                elif not cell.skip and row["state"] == "skipped":
                    self._change(execute, row, **labels, state="waiting", error=None)
                else:
                    self._change(execute, row, **labels)
            for key, value in (("plan", dict(plan)), ("plan_hash", hash_of(plan))):
                text = canonical_json(value)
                execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (key, text, _digest(key, text)))

    def claim(self, owner: str, *, stale_after: float = 60.0, watched: Collection[str] = ()) -> Cell | None:
        """Claim the next cell of the plan for a process (`processes.identity`); None if no cell waits.

        Running cells whose process died are taken back first; that counts as a fault. A process of this boot is dead if
        it does not run, so a step of the clock cannot take its cell; any other is dead after `stale_after` seconds
        without a heartbeat (a heartbeat far in the future means that the clock was set back).

        Owners in `watched` are left alone: the caller looks after them and may yet hold the result of a dead one.
        """
        now = self._clock()
        with self._database.writing() as execute:
            for row in self._running(execute):
                is_silent = abs(now - (row["heartbeat"] or 0)) > stale_after
                if row["owner"] not in watched and (self._is_dead(row) or (is_silent and not is_here(row["owner"]))):
                    self._count_fault(execute, row, "its process died", is_final=False)
            row = execute(
                "SELECT * FROM cells WHERE state = 'waiting' AND position IS NOT NULL "
                "ORDER BY attempts, position LIMIT 1"
            ).fetchone()
            if row is None:
                return None
            cell = self._cell(row)
            self._change(execute, row, state="running", owner=owner, attempts=row["attempts"] + 1)
            execute("UPDATE cells SET heartbeat = ? WHERE name = ?", (now, cell.name))
            return cell

    def beat(self, name: str, owner: str, progress: Mapping[str, object] | None = None) -> bool:
        """Record that a cell is still being run, and how far it is; False if the claim is no longer the owner's."""
        with self._database.writing() as execute:
            changed = execute(
                "UPDATE cells SET heartbeat = ? WHERE name = ? AND owner = ? AND state = 'running'",
                (self._clock(), name, owner),
            ).rowcount
            if changed and progress is not None:
                execute("INSERT OR REPLACE INTO progress VALUES (?, ?)", (name, canonical_json(dict(progress))))
            return bool(changed)

    def finish(self, name: str, owner: str, content: Mapping[str, object]) -> None:
        """Write a cell's result and mark it done, in one transaction; once this returns, the result is durable.

        Calling it twice with the same content changes nothing.

        Raises:     StoreError if another process claimed the cell, or the content is not JSON
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
            values = (name, text, finished_at, _digest(name, text, finished_at))
            execute("INSERT INTO results VALUES (?, ?, ?, ?)", values)
            execute("DELETE FROM progress WHERE cell = ?", (name,))
            self._change(execute, row, state="done", error=None)

    def fail(self, name: str, owner: str, error: str, *, is_final: bool = False) -> State:
        """Count a fault of a cell: it waits again, or has failed if the fault is final or one too many."""
        with self._database.writing() as execute:
            row = self._row(execute, name)
            self._check_claim(row, owner)
            return self._count_fault(execute, row, error, is_final=is_final)

    def abandon(self, owner: str, error: str) -> None:
        """Count a fault for each cell that a dead owner was running."""
        with self._database.writing() as execute:
            for row in self._running(execute, owner):
                self._count_fault(execute, row, error, is_final=False)

    def release(self, owner: str) -> None:
        """Give back the cells of an owner that was interrupted, without counting a fault."""
        with self._database.writing() as execute:
            for row in self._running(execute, owner):
                self._change(execute, row, state="waiting", owner=None)

    def release_interrupted(self) -> int:
        """Give back, without a fault, every running cell whose process is gone; returns how many still run elsewhere.

        Only for a runner that holds the lock of the study: it knows that processes of another boot are gone too.
        """
        with self._database.writing() as execute:
            rows = self._running(execute)
            gone = [row for row in rows if self._is_dead(row) or not is_here(row["owner"])]
            for row in gone:
                self._change(execute, row, state="waiting", owner=None)
            return len(rows) - len(gone)

    def retry_failed(self) -> int:
        """Let the failed cells of the plan wait again, with no faults; returns how many there were."""
        with self._database.writing() as execute:
            rows = execute("SELECT * FROM cells WHERE state = 'failed' AND position IS NOT NULL").fetchall()
            for row in rows:
                self._change(execute, row, state="waiting", owner=None, faults=0, error=None)
            return len(rows)

    def cells(self, *, of_all_plans: bool = False) -> list[CellState]:
        """The cells of the current plan in its order; with `of_all_plans` those of earlier plans after them."""
        with self._database.reading() as execute:
            rows = execute("SELECT * FROM cells ORDER BY position IS NULL, position, name").fetchall()
            cells = [(row, self._cell(row)) for row in rows]  # verified before they are chosen from
        return [
            CellState(cell, row["state"], row["owner"], row["attempts"], row["faults"], row["error"])
            for row, cell in cells
            if of_all_plans or row["position"] is not None
        ]

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
        """The current plan as `set_plan` took it; empty before the first."""
        with self._database.reading() as execute:
            row = execute("SELECT * FROM meta WHERE key = 'plan'").fetchone()
            if row is None:
                return {}
            if not _is_sealed(row["digest"], "plan", row["value"]):
                raise StoreError(f"{self.path} is damaged: its plan is not what was written")
            return dict(json.loads(row["value"]))

    def progress(self) -> dict[str, Record]:
        """The last progress of the running cells: for display only, never for a decision."""
        with self._database.reading() as execute:
            rows = execute(
                "SELECT cell, progress.content FROM progress JOIN cells ON cell = name AND state = 'running'"
            )
            return {row["cell"]: json.loads(row["content"]) for row in rows.fetchall()}

    def snapshot(self, path: Path) -> None:
        """Copy the store as it is at one instant: a long read of the copy blocks no writer."""
        self._database.copy_to(path)

    def _row(self, execute: Execute, name: str) -> sqlite3.Row:
        row: sqlite3.Row | None = execute("SELECT * FROM cells WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise StoreError(f"{self.path} has no cell {name}")
        return row

    def _running(self, execute: Execute, owner: str | None = None) -> list[sqlite3.Row]:
        rows: list[sqlite3.Row] = execute("SELECT * FROM cells WHERE state = 'running'").fetchall()
        return [row for row in rows if owner is None or row["owner"] == owner]

    def _insert(self, execute: Execute, cell: Cell, labels: Record) -> None:
        row = {"name": cell.name, "seed": cell.seed, "config": canonical_json(cell.config), "attempts": 0, "faults": 0}
        row |= labels | {"state": "skipped" if cell.skip else "waiting", "owner": None, "error": cell.skip or None}
        sealed = [row[key] for key in _SEALED]
        columns = f"({', '.join(_SEALED)}, digest) VALUES ({'?,' * len(_SEALED)} ?)"
        execute(f"INSERT INTO cells {columns}", (*sealed, _digest(*sealed)))

    def _change(self, execute: Execute, row: sqlite3.Row, **columns: object) -> None:
        self._cell(row)  # a damaged row must not get a fresh digest
        new = {key: row[key] for key in _SEALED} | columns
        if any(new[key] != row[key] for key in columns):
            assignments = ", ".join(f"{name} = ?" for name in (*columns, "digest"))
            execute(
                f"UPDATE cells SET {assignments} WHERE name = ?",  # noqa: S608
                (*columns.values(), _digest(*(new[key] for key in _SEALED)), row["name"]),
            )

    def _count_fault(self, execute: Execute, row: sqlite3.Row, error: str, *, is_final: bool) -> State:
        faults = row["faults"] + 1
        state: State = "failed" if is_final or faults >= self.max_attempts else "waiting"
        if state == "failed" and not is_final:
            error = f"{error} (the last of {faults} attempts that went wrong)"
        self._change(execute, row, state=state, faults=faults, error=_storable(error))
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

    def _result(self, row: sqlite3.Row) -> Result | None:
        cell = self._cell(row)
        if (row["state"] == "done") != (row["content"] is not None):
            raise StoreError(f"{self.path} is damaged: cell {cell.name} ({cell}) and its result do not belong together")
        if row["content"] is None:
            return None
        if not _is_sealed(row["seal"], cell.name, row["content"], row["finished_at"]):
            raise StoreError(f"{self.path} is damaged: the result of cell {cell.name} ({cell}) is not what was written")
        return Result(cell, json.loads(row["content"]), row["finished_at"])


def _digest(*content: object) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def _is_sealed(digest: object, *content: object) -> bool:
    try:
        return _digest(*content) == digest
    except (TypeError, ValueError):  # a damaged column may come back as bytes or as infinity
        return False


def _storable(error: str) -> str:
    """An error message without the user's home folder, of bounded length, and valid Unicode."""
    home = os.path.expanduser("~")
    text = error if home in ("~", "/") else error.replace(home, "~")
    return text.encode("utf-8", "replace").decode()[:_MAX_ERROR_LENGTH]
