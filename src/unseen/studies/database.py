"""An SQLite file that is whole, ours and on this machine, or else refused; it changes in short transactions."""

import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from unseen.core.errors import StoreError
from unseen.core.faults import fault
from unseen.core.files import TEMPORARY, sync_folder

NETWORK = (
    "nfs",
    "cifs",
    "smb",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
    "gpfs",
    "beegfs",
    "davfs",
    "sshfs",
    "s3fs",
    "rclone",
)

Execute = Callable[..., sqlite3.Cursor]


@dataclass(frozen=True)
class Schema:
    """The tables of a kind of file, its application id, and its number, which grows with every change of the tables."""

    application: int
    number: int
    tables: tuple[str, ...]


def journal_mode(sqlite: tuple[int, ...]) -> str:
    """The journal that is safe with a version of SQLite: WAL can lose commits before the fix of its reset bug.

    >>> [journal_mode(version) for version in ((3, 40, 1), (3, 44, 6), (3, 50, 7), (3, 51, 2), (3, 51, 3), (3, 52, 0))]
    ['DELETE', 'WAL', 'WAL', 'DELETE', 'WAL', 'DELETE']
    """
    line, patch = sqlite[:2], sqlite[2]
    fixed_line = (line == (3, 44) and patch >= 6) or (line == (3, 50) and patch >= 7)
    return "WAL" if fixed_line or (sqlite >= (3, 51, 3) and sqlite != (3, 52, 0)) else "DELETE"


def file_system_of(path: Path, mounts: str) -> str:
    r"""The type of the file system that holds a path, by the text of /proc/mounts.

    >>> file_system_of(Path("/data/my study/a"), "disk / ext4 rw\nserver:/ /data/my\\040study nfs4 rw\n")
    'nfs4'
    """
    found = ("", "")
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) >= 3:
            point = parts[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
            if path.is_relative_to(point) and len(point) >= len(found[0]):
                found = (point, parts[2])
    return found[1]


def refuse_network(path: Path) -> None:
    """Refuse a path on a network file system: its locks do not hold, and two writers would ruin the file."""
    mounts = Path("/proc/mounts")
    kind = (
        file_system_of(path.resolve(), mounts.read_text(encoding="utf-8", errors="replace")) if mounts.exists() else ""
    )
    if kind.removeprefix("fuse.").startswith(NETWORK):
        raise StoreError(
            f"{path} lies on a network file system", got=kind, hint="Use a folder on a disk of this machine."
        )


def create_database(path: Path, schema: Schema, *, rows: Sequence[tuple[str, tuple[str, ...]]] = ()) -> None:
    """Make a file with these tables and rows if there is none; it appears under its name only when it is whole."""
    if path.exists():
        return
    refuse_network(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_beside(path) as temporary:
            connection = sqlite3.connect(temporary)
            try:
                connection.execute(f"PRAGMA application_id={schema.application}")
                connection.execute(f"PRAGMA user_version={schema.number}")
                for statement in schema.tables:
                    connection.execute(statement)
                for statement, values in rows:
                    connection.execute(statement, values)
                connection.commit()
            finally:
                connection.close()
            _sync(temporary)
            fault("store.before_link")
            # Unlike a rename a link never replaces the file that another process made meanwhile.
            with suppress(FileExistsError):
                os.link(temporary, path)
            sync_folder(path.parent)
    except (sqlite3.Error, OSError) as problem:
        raise StoreError(f"cannot make {path} ({problem})", hint="Use a folder that can be written.") from None


class Database:
    """An open file; one lock a process, one writer among processes, and every SQLite error a `StoreError`.

    Raises:     StoreError if the file is missing, damaged, foreign, of a newer schema, or on a network file system
    """

    def __init__(self, path: Path, schema: Schema) -> None:
        self.path = path
        self._lock = threading.RLock()
        refuse_network(path)
        if not path.is_file() or path.stat().st_size == 0:
            raise StoreError(
                f"{path} is {'empty' if path.is_file() else 'not there'}", hint="Use a study that was started."
            )
        with self._guard():
            # No mode that creates: a file that is gone is an error, not an empty store.
            address = f"file:{quote(str(path.absolute()))}?mode=rw"
            self._connection = sqlite3.connect(
                address, uri=True, timeout=30, isolation_level=None, check_same_thread=False
            )
        self._connection.row_factory = sqlite3.Row
        try:
            with self._guard():
                self._check(schema)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        """Ask, one statement at a time: a statement sees one instant."""
        with self._lock, self._guard():
            yield self._connection.execute

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """Change in one transaction: all of it is durable once this ends, none of it if it raises."""
        with self._lock, self._guard():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                fault("store.before_commit")
                self._connection.execute("COMMIT")
                fault("store.after_commit")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def copy_to(self, path: Path) -> None:
        """Copy the file as it is at one instant, also while others write."""
        with self._lock, self._guard():
            path.parent.mkdir(parents=True, exist_ok=True)
            with _temporary_beside(path) as temporary:
                copy = sqlite3.connect(temporary)
                try:
                    self._connection.backup(copy)
                    copy.execute("PRAGMA journal_mode=DELETE")
                finally:
                    copy.close()
                _sync(temporary)
                os.replace(temporary, path)
                sync_folder(path.parent)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError, OSError) as problem:  # SQLite's own message may quote damaged bytes
            raise StoreError(f"{self.path} cannot be used ({problem})") from problem

    def _check(self, schema: Schema) -> None:
        execute = self._connection.execute
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "foreign_keys=ON", "mmap_size=0"):
            execute(f"PRAGMA {pragma}")
        number = execute("PRAGMA user_version").fetchone()[0]
        if execute("PRAGMA application_id").fetchone()[0] != schema.application or number < 1:
            raise StoreError(f"{self.path} is not a store of unseen", hint="Use the folder of a study.")
        if number > schema.number:
            raise StoreError(
                f"{self.path} was written by a newer version of unseen: its schema is {number}, "
                f"this version knows {schema.number}",
                hint="Use that version.",
            )
        # A file from anyone is data: views, triggers or altered tables could do something else than what we read.
        wanted = sqlite3.connect(":memory:")
        try:
            for statement in schema.tables:
                wanted.execute(statement)
            listing = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
            if [tuple(row) for row in execute(listing)] != wanted.execute(listing).fetchall():
                raise StoreError(
                    f"{self.path} has other tables than a store of unseen", hint="Use the file as unseen wrote it."
                )
        finally:
            wanted.close()
        findings = [row[0] for row in execute("PRAGMA integrity_check(3)")]
        if findings != ["ok"]:
            raise StoreError(f"{self.path} is damaged ({findings[0]})", hint="Use a copy of it, or another folder.")
        mode = journal_mode(sqlite3.sqlite_version_info)
        if execute(f"PRAGMA journal_mode={mode}").fetchone()[0].upper() != mode:
            raise StoreError(
                f"{self.path} is in use by a process with another SQLite", hint="Use it when that has ended."
            )
        # EXTRA is FULL, and also makes the removal of the rollback journal durable: that removal is the commit.
        execute(f"PRAGMA synchronous={'FULL' if mode == 'WAL' else 'EXTRA'}")


@contextmanager
def _temporary_beside(path: Path) -> Iterator[Path]:
    temporary = path.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
