"""Atomic writes: at every instant a reader finds the old content or the new, never a part of it."""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError
from unseen.core.faults import fault

TEMPORARY = ".tmp-"


def _temporary_beside(path: Path) -> Path:
    # In the same folder: a rename across file systems is a copy, and a copy can be torn.
    return path.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"


def sync(path: Path) -> None:
    """Make the content of a file, or the renames in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def temporary_file(path: Path) -> Iterator[Path]:
    """A new name in the same folder, for a file that is then renamed to `path`; otherwise it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_beside(path)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file atomically and durably: a kill or a power cut leaves the old content or the new."""
    with temporary_file(path) as temporary:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fault("files.before_rename")
        os.replace(temporary, path)
    sync(path.parent)


def write_text(path: Path, content: str) -> None:
    """Replace a text file, as `write_bytes` does."""
    write_bytes(path, content.encode("utf-8"))


def write_json(path: Path, content: object) -> None:
    """Replace a JSON file, as `write_bytes` does; NaN and infinity, which JSON does not have, are refused."""
    write_text(path, json.dumps(content, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """The content of a JSON file, or a `DataError` that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"no file {path}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Fill a folder that appears under its name only when it is complete; an older folder of that name is replaced.

    Every file written into it is made durable before the rename.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_beside(path)
    temporary.mkdir()
    try:
        yield temporary
        for file in sorted(temporary.rglob("*")):
            if file.is_file():
                sync(file)
        sync(temporary)
        fault("folder.before_rename")
        old = _temporary_beside(path)
        if path.exists():
            os.replace(path, old)
        os.replace(temporary, path)
        sync(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def remove_folder(path: Path) -> None:
    """Remove a folder in one step, so that no part of it is ever seen under its name; a missing folder is fine."""
    renamed = _temporary_beside(path)
    try:
        os.replace(path, renamed)
    except FileNotFoundError:
        return
    shutil.rmtree(renamed, ignore_errors=True)


def sweep(folder: Path) -> int:
    """Remove temporary files of killed writers from a folder; returns their number.

    Those of a living process are work in progress and stay.
    """
    removed = 0
    for leftover in folder.glob(f"{TEMPORARY}*"):
        owner = leftover.name.removeprefix(TEMPORARY).split("-")[0]
        if owner.isdigit() and int(owner) != os.getpid() and Path(f"/proc/{owner}").exists():
            continue
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)
        removed += 1
    return removed


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
