import os
import signal

import pytest

from unseen.core.errors import DataError
from unseen.core.files import TEMPORARY, new_folder, read_json, sweep, write_bytes, write_json


def test_a_failed_write_leaves_the_old_content_and_no_leftover(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_bytes(path, b"old")

    def refuse(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_file_is_made_durable_before_it_gets_its_name(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def recorded(*arguments, name=name, real=real):
            calls.append(name)
            return real(*arguments)

        monkeypatch.setattr(os, name, recorded)
    write_bytes(tmp_path / "a.txt", b"x")
    assert calls == ["fsync", "replace", "fsync"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    with pytest.raises(RuntimeError, match="in the middle"), new_folder(tmp_path / "whole") as filling:
        (filling / "part").write_text("1")
        raise RuntimeError("in the middle")
    assert list(tmp_path.iterdir()) == []
    with new_folder(tmp_path / "whole") as filling:
        (filling / "part").write_text("1")
        assert not (tmp_path / "whole").exists()
    with new_folder(tmp_path / "whole") as filling:
        (filling / "part").write_text("2")
    assert (tmp_path / "whole" / "part").read_text() == "2"
    assert [each.name for each in tmp_path.iterdir()] == ["whole"]


@pytest.mark.parametrize("point", ["files.before_rename", "folder.before_rename"])
def test_a_killed_writer_leaves_what_the_next_start_sweeps(tmp_path, monkeypatch, point):
    write_bytes(tmp_path / "a.txt", b"old")
    child = os.fork()
    if child == 0:
        os.environ["UNSEEN_FAULT"] = point
        write_bytes(tmp_path / "a.txt", b"new")
        with new_folder(tmp_path / "folder") as filling:
            (filling / "part").write_text("1")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert (tmp_path / "a.txt").read_bytes() == (b"old" if point == "files.before_rename" else b"new")
    assert not (tmp_path / "folder").exists()
    assert sweep(tmp_path) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_the_leftover_of_a_living_process_stays(tmp_path):
    (tmp_path / f"{TEMPORARY}{os.getppid()}-aa").write_text("in use")
    assert sweep(tmp_path) == 0


def test_what_is_not_json_is_named(tmp_path):
    with pytest.raises(DataError, match="no file"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        read_json(tmp_path / "a.json")
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "b.json", {"x": float("inf")})
    assert not (tmp_path / "b.json").exists()
