"""The command line, in a process of its own."""

import os
import subprocess
import sys


def unseen(*arguments, cwd, code=0):
    """Run a command in a folder; returns standard output and error."""
    done = subprocess.run(
        [sys.executable, "-m", "unseen", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "COLUMNS": "160"},
    )
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


def one_sentence(*arguments, cwd):
    """The one sentence with which a command fails; it prints nothing else and writes nothing."""
    before = sorted(cwd.rglob("*"))
    out, err = unseen(*arguments, cwd=cwd, code=2)
    assert out == ""
    *before_it, sentence = err.strip().split("\n")
    assert sentence.startswith("unseen: ")
    assert all(line.startswith("fraction ") for line in before_it)  # the line that tells what is about to run
    assert sorted(cwd.rglob("*")) == before
    return sentence
