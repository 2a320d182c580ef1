"""Cells that worker processes of the runner's tests run: some go well, some raise, some die."""

import os
import signal
import sys
from pathlib import Path

from unseen.core.errors import DataError


def deadly_cell(job, progress):
    """Kill the own process if the configuration says so; raise, or return nonsense, if it says that."""
    config, folder = job.config, job.folder
    with open(folder / "attempts", "a") as file:
        file.write("x")
    if config["does"] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if config["does"] == "raise":
        raise DataError("'birds' holds no image", hint="Use a folder with one sub-folder per class.")
    if config["does"] == "break":
        raise ZeroDivisionError(f"in {Path.home()}/secret")
    if config["does"] == "not a number":
        return {"recall": float("nan")}
    if config["does"] == "break once" and (folder / "attempts").read_text() == "x":
        raise OSError("the device is busy")
    print("what a cell prints is no news")
    progress("nonsense", None, "")
    progress(1, 2, "[red]half")
    return {
        "does": config["does"],
        "threads": os.environ["OMP_NUM_THREADS"],
        "cache": None if job.cache is None else str(job.cache),
        "process": os.getpid(),
        "is_light": "torch" not in sys.modules and "rich" not in sys.modules,
        "stdin": sys.stdin.read(),
    }


class Nested:
    """A place for a function that no worker can import by name."""

    @staticmethod
    def cell(job, progress):
        """Never runs."""
        return {}
