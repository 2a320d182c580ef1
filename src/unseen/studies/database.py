"""An SQLite file that changes in short transactions; refused if it is damaged, foreign or on a network disk."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from unseen.core.errors import StoreError
from unseen.core.faults import fault
from unseen.core.files import sync, temporary_file

_NETWORK = (
    "nfs", "cifs", "smb", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "davfs", "sshfs", "s3fs", "rclone"
)  # fmt: skip

Execute = Callable[..., sqlite3.Cursor]


@dataclass(frozen=True)
class Schema:
    """The tables of a database, its application id, and its version, which grows with every change of the tables."""

    application: int
    version: int
    tables: tuple[str, ...]


def journal_mode(sqlite: tuple[int, ...]) -> str:
    """The journal mode that is safe with a version of SQLite: WAL can lose commits before the fix of its reset bug.

    >>> [journal_mode(version) for version in ((3, 40, 1), (3, 44, 6), (3, 50, 7), (3, 51, 2), (3, 51, 3), (3, 52, 0))]
    ['DELETE', 'WAL', 'WAL', 'DELETE', 'WAL', 'DELETE']
    """
    release, patch = sqlite[:2], sqlite[2]
    has_backport = (release == (3, 44) and patch >= 6) or (release == (3, 50) and patch >= 7)
    return "WAL" if has_backport or (sqlite >= (3, 51, 3) and sqlite != (3, 52, 0)) else "DELETE"


def file_system_of(path: Path, mounts: str) -> str:
    r"""The type of the file system that holds a path, according to the content of /proc/mounts.

    >>> file_system_of(Path("/data/my study/a"), "disk / ext4 rw\nserver:/ /data/my\\040study nfs4 rw\n")
    'nfs4'
    """
    longest, kind = "", ""
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) >= 3:
            point = parts[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
            if path.is_relative_to(point) and len(point) >= len(longest):
                longest, kind = point, parts[2]
    return kind


def refuse_network(path: Path) -> None:
    """Refuse a path on a network file system: its locks are not reliable, and two writers would ruin the file."""
    mounts = Path("/proc/mounts")
    content = mounts.read_text(encoding="utf-8", errors="replace") if mounts.exists() else ""
    kind = file_system_of(path.resolve(), content)
    if kind.removeprefix("fuse.").startswith(_NETWORK):
        raise StoreError(f"{path} is on a network file system", got=kind, hint="Use a local disk.")


def create_database(path: Path, schema: Schema, first_row: tuple[str, tuple[str, ...]]) -> None:
    """Create a database with a first row if there is none; it appears under its name when it is complete."""
    if path.exists():
        return
    refuse_network(path)
    try:
        with temporary_file(path) as temporary:
            with closing(sqlite3.connect(temporary)) as connection:
                connection.execute(f"PRAGMA application_id={schema.application}")
                connection.execute(f"PRAGMA user_version={schema.version}")
                for statement in schema.tables:
                    connection.execute(statement)
                connection.execute(*first_row)
                connection.commit()
            sync(temporary)
            fault("store.before_link")
            # Unlike a rename, a link never replaces a file that another process created meanwhile.
            with suppress(FileExistsError):
                os.link(temporary, path)
            sync(path.parent)
    except (sqlite3.Error, OSError) as problem:
        raise StoreError(f"cannot create {path} ({problem})", hint="Use a folder that is writable.") from None


class Database:
    """An open database: one lock per process, one writer among processes, and every SQLite error a `StoreError`.

    Raises:     StoreError if the file is missing, damaged, foreign, of a newer schema, or on a network file system
    """

    def __init__(self, path: Path, schema: Schema) -> None:
        self.path = path
        self._lock = threading.RLock()
        refuse_network(path)
        if not path.is_file() or path.stat().st_size == 0:
            reason = "is empty" if path.is_file() else "does not exist"
            raise StoreError(f"{path} {reason}", hint="Start the study first.")
        # Never creates: a missing file is an error, not an empty store.
        address = f"file:{quote(str(path.absolute()))}?mode=rw"
        with self._guard():
            self._connection = sqlite3.connect(
                address, uri=True, timeout=30, isolation_level=None, check_same_thread=False
            )
            self._connection.row_factory = sqlite3.Row
            try:
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
        """Query, one statement at a time: each sees the database at one instant."""
        with self._lock, self._guard():
            yield self._connection.execute

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """Change the database in one transaction: all of it is durable once this ends, none of it if it raises."""
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
        """Copy the database as it is at one instant, also while others write."""
        with self._lock, self._guard(), temporary_file(path) as temporary:
            with closing(sqlite3.connect(temporary)) as copy:
                self._connection.backup(copy)
                copy.execute("PRAGMA journal_mode=DELETE")
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)

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
        if number > schema.version:
            raise StoreError(
                f"{self.path} was written by a newer version of unseen: its schema is {number}, "
                f"this version knows {schema.version}",
                hint="Use that version.",
            )
        # The file may come from anyone: views, triggers or altered tables could make it do something else.
        listing = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
        with closing(sqlite3.connect(":memory:")) as empty:
            for statement in schema.tables:
                empty.execute(statement)
            expected = empty.execute(listing).fetchall()
        if [tuple(row) for row in execute(listing)] != expected:
            raise StoreError(
                f"{self.path} has other tables than a store of unseen", hint="Use the file as unseen wrote it."
            )
        finding = execute("PRAGMA integrity_check(1)").fetchone()[0]
        if finding != "ok":
            raise StoreError(f"{self.path} is damaged ({finding})", hint="Restore a copy of it, or use another folder.")
        mode = journal_mode(sqlite3.sqlite_version_info)
        if execute(f"PRAGMA journal_mode={mode}").fetchone()[0].upper() != mode:
            raise StoreError(f"{self.path} is in use by a process with another SQLite", hint="Wait until it has ended.")
        # EXTRA is FULL, and also makes the removal of the rollback journal durable: that removal is the commit.
        execute(f"PRAGMA synchronous={'FULL' if mode == 'WAL' else 'EXTRA'}")
