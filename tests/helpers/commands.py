"""The command line, called in this process: a process of its own would import torch again for every command."""

import io
import os
import signal
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from unittest.mock import patch

from unseen.cli import main


def unseen(*arguments, cwd, code=0):
    """Run a command in a folder; returns standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    ended: str | int = 0
    on_kill = signal.getsignal(signal.SIGTERM)
    words = patch.object(sys, "argv", ["unseen", *map(str, arguments)])
    with chdir(cwd), words, patch.dict(os.environ, COLUMNS="160"), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            ended = end.code or 0
        finally:
            signal.signal(signal.SIGTERM, on_kill)
    assert ended == code, f"exit code {ended}\n{out.getvalue()}\n{err.getvalue()}"
    return out.getvalue(), err.getvalue()


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
