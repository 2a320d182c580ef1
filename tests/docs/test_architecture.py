"""The walks of docs/architecture.md are what happens: every function exists and is first called in that order."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.small_runs import SMALL_PLAN, write_features

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "unseen"

TRACER = """
import os, sys, threading

seen, file = set(), open(os.path.join(os.environ["TRACES"], f"{os.getpid()}.txt"), "a", buffering=1)

def trace(frame, event, argument):
    if event == "call" and frame.f_code not in seen and frame.f_code.co_flags & 1:  # functions, not class bodies
        seen.add(frame.f_code)
        module = frame.f_globals.get("__name__", "")
        if module.startswith("unseen"):
            file.write(f"{module}.{frame.f_code.co_qualname}\\n")

threading.setprofile(trace)
sys.setprofile(trace)
"""
"""Imported by every Python process of a command: writes the name of each function of ours at its first call."""

TRAIN = ["train", "--data", "features=features.npz", "--out", "run", "--loss", "margin", "--miner", "distance"]
TRAIN += ["--epochs", "1", "--embedding-size", "8", "--save-seconds", "0"]
TRAIN += ["--sampler", "samples_per_class:batch_size=12,per_class=2"]


def walk(heading: str) -> list[str]:
    """The functions of a numbered list, in order."""
    (section,) = re.findall(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\d+\. `(unseen\.[\w.]+)`", section, re.MULTILINE)


def traced(folder: Path, *arguments: str) -> list[list[str]]:
    """Run a command; the functions of each of its processes in the order of their first calls."""
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(TRACER)
    traces = folder / f"traces of {arguments[0]}"
    traces.mkdir()
    environment = {"TRACES": str(traces), "PYTHONPATH": os.pathsep.join([str(folder / "site"), str(SOURCE.parent)])}
    command = [sys.executable, "-m", "unseen", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return [path.read_text().splitlines() for path in sorted(traces.iterdir())]


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """Command -> the traces of its processes."""
    folder = tmp_path_factory.mktemp("walks")
    write_features(folder / "features.npz")
    (folder / "plan.yaml").write_text(SMALL_PLAN)
    return {
        "train": traced(folder, *TRAIN),
        "evaluate": traced(folder, "evaluate", "run"),
        "study": traced(folder, "study", "plan.yaml", "--out", "study", "--workers", "1"),
    }


HEADINGS = {
    "What happens on `unseen train`": "train",
    "What happens on `unseen evaluate`": "evaluate",
    "What happens on `unseen study`: the runner": "study",
    "What happens on `unseen study`: a worker": "study",
}


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_walk_names_functions_that_exist(heading):
    assert len(walk(heading)) >= 5
    for name in walk(heading):
        parts = name.split(".")
        for split in range(len(parts) - 1, 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:split]))
            except ModuleNotFoundError:
                continue
            break
        for attribute in parts[split:]:
            found = getattr(found, attribute)


@pytest.mark.parametrize(("heading", "command"), HEADINGS.items())
def test_a_walk_is_what_happens(processes, heading, command):
    steps = walk(heading)
    orders = [[name for name in names if name in steps] for names in processes[command]]
    assert steps in orders, f"the order of first calls is {max(orders, key=len)}"


def test_the_tree_names_every_folder():
    stated = set(re.findall(r"^\| `([\w/]+)`", PAGE, re.MULTILINE))
    folders = {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("__init__.py")} - {"."}
    assert stated == folders
