"""Recall for the time: recall@1 on unseen classes after some minutes of training, from image files and empty caches.

    python -m bench.quality --data cub200=FOLDER --subject SUBJECT --minutes 60 [--seed 0] [-- OPTIONS]
    python -m bench.quality --write

One call measures one subject with one seed and puts its rows into bench/results/quality.csv; the whole takes hours, and
`--write` makes the table and the picture of what was measured so far.

frozen, top, full   `unseen train --data ... --depth SUBJECT` with its defaults, as a user types it
untrained           the same with `--loss none`: the pretrained features
pml                 bench/plain_pml.py: pytorch-metric-learning and timm, the same backbone and test crops
pml-frozen-bn       the same with the statistics of batch norm kept, as a user does who knows these backbones

The clock starts with the process: imports, checks of the files, caches and validation count, and so does everything
that the run does by itself. Weights are copied at the marks (5, 15, 30, 60 and 120 minutes, as far as `--minutes`
goes) and evaluated after the run, on all unseen classes, by the same code for all. Of a run of ours they are the best
so far on its validation classes, as it would keep them. A run that ends earlier keeps its number. A killed bench goes
on where it stopped (ours from the last checkpoint, with the clock of before; pml from the beginning).

Options after `--` go to `unseen train`, and `--name` names the row: `--subject top --name resnet -- --model resnet50`.
"""

import argparse
import csv
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file

from bench import plain_pml
from bench.measuring import RESULTS, machine
from bench.records import markdown_table
from unseen.core.config import as_record
from unseen.data import Catalogue, ImageFiles
from unseen.data.summary import describe_files
from unseen.evaluation import evaluate
from unseen.models import embed
from unseen.runs import RunFolder, evaluation_arguments, prepare
from unseen.runs.depths import items_at_depth, part_at_depth
from unseen.runs.run_recipe import make_dataset, model_of

ROOT = Path(__file__).resolve().parent.parent
MARKS = (5.0, 15.0, 30.0, 60.0, 120.0)
OURS = {"untrained": ("--depth", "frozen", "--loss", "none", "--embedding-size", "0")} | {
    depth: ("--depth", depth) for depth in ("frozen", "top", "full")
}
PML = {"pml": (), "pml-frozen-bn": ("--freeze-batch-norm",)}
POLL_SECONDS = 0.5
TRAINING, FINISHED, NOTHING = "training", "finished", "no weights yet"


class Row(NamedTuple):
    """The recall@1, in per cent, of one subject at one minute; `ended` is the minute of its end, if it came before."""

    subject: str
    seed: int
    minute: float
    recall: float | None
    state: str
    ended: float | None
    step: int | None
    data: str
    files: str
    options: str
    commit: str
    machine: str

    @property
    def key(self):
        """What a row is of."""
        return self.subject, self.seed, self.minute


class Timed(NamedTuple):
    """What a watched process left: the copies of its weights by mark, and the minute of its end before the last one."""

    copies: dict[float, Path]
    ended: float | None


def marks_up_to(minutes):
    """The marks of a run of so many minutes; its end is one."""
    return [mark for mark in MARKS if mark < minutes] + [float(minutes)]


def watch(command, marks, work, *, newest):
    """Run a command until the last mark; at each mark `newest()` names the file or folder of weights to copy.

    The clock is kept in `work`, so that the time of an interrupted run goes on and a run that has ended is not started
    again. A mark at which there are no weights has no copy.
    """
    clock, kept = work / "clock.json", work / "marks"
    kept.mkdir(parents=True, exist_ok=True)
    state = json.loads(clock.read_text()) if clock.is_file() else {"seconds": 0.0, "ended": None}
    left = [mark for mark in marks if 60 * mark > state["seconds"]]
    if left and state["ended"] is None:
        _run(command, left, clock, state, lambda mark: _copy(newest(), kept, mark))
    return Timed({float(path.name): path for path in kept.iterdir()}, state["ended"])


def _run(command, left, clock, state, at_mark):
    """Run a command until the last of the marks that are left; the state follows its clock, in memory and on disk."""
    began = time.monotonic() - state["seconds"]
    process = subprocess.Popen([word.replace("BEGAN", repr(began)) for word in command], cwd=ROOT)
    try:
        while left:
            has_ended = process.poll() is not None
            state["seconds"] = time.monotonic() - began
            while left and state["seconds"] >= 60 * left[0] and not has_ended:
                at_mark(left.pop(0))
            clock.write_text(json.dumps(state))
            if has_ended:
                break
            time.sleep(POLL_SECONDS)
        if left and process.returncode == 0:
            state["ended"] = state["seconds"] / 60
        elif left:
            raise SystemExit(f"{' '.join(command)} failed with exit code {process.returncode}")
        else:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
    finally:
        clock.write_text(json.dumps(state))
        if process.poll() is None:
            process.kill()
            process.wait()


def _copy(source, folder, mark):
    if source is not None:
        shutil.copytree(source, folder / f"{mark:g}", dirs_exist_ok=True)


def newest_checkpoint(folder):
    """The newest checkpoint of a run; it stays until the one after the next is complete."""
    steps = [int(path.name.rpartition("-")[2]) for path in folder.glob("checkpoint-*")]
    return folder / f"checkpoint-{max(steps)}" if steps else None


def recall_of_checkpoint(checkpoint, run, cache):
    """Recall@1 of the best weights so far in a checkpoint, in per cent, and its step."""
    prepared = prepare(RunFolder(run).recipe())
    items = make_dataset(prepared.recipe, prepared.catalogue)
    model = model_of(prepared.recipe, items)
    parts = part_at_depth(prepared.recipe, model, items)
    inputs = items_at_depth(prepared, parts, items, cache=cache, workers=0)
    tensors = load_file(checkpoint / "tensors.safetensors")
    found = {name.removeprefix("best/"): tensor for name, tensor in tensors.items() if name.startswith("best/")}
    current = "objective/model."
    found = found or {n.removeprefix(current): tensor for n, tensor in tensors.items() if n.startswith(current)}
    parts.trained.load_state_dict(found)
    step = json.loads((checkpoint / "state.json").read_text())["run"]["step"]
    return _recall(parts.trained, inputs, prepared), step


def _recall(model, items, prepared):
    embeddings = embed(model, items, prepared.split.test)
    arguments = evaluation_arguments(prepared.catalogue, prepared.split)
    return 100 * evaluate(embeddings, scores=["recall@1"], bootstrap=None, **arguments)["recall@1"]


def measure_ours(options, work, save_seconds):
    """(mark, recall, state, step) of a run of `unseen train`, and the minute of its end."""
    run, cache = work / "run", work / "cache"
    command = [sys.executable, "-m", "unseen", "train", "--data", options.data, "--seed", str(options.seed)]
    command += [*OURS[options.subject], *options.options, "--out", str(run), "--cache", str(cache)]
    command += ["--save-seconds", str(save_seconds)]
    timed = watch(command, marks_up_to(options.minutes), work, newest=lambda: newest_checkpoint(run / "checkpoints"))
    rows = []
    for mark in marks_up_to(options.minutes):
        if timed.ended is not None and mark >= timed.ended - POLL_SECONDS / 60:
            recall = 100 * RunFolder(run).result()["scores"]["numbers"]["recall@1"]
            rows.append((mark, recall, FINISHED, None))
        elif mark in timed.copies:
            recall, step = recall_of_checkpoint(timed.copies[mark], run, cache)
            rows.append((mark, recall, TRAINING, step))
        else:
            rows.append((mark, None, NOTHING, None))
    return rows, timed.ended


def measure_pml(options, work, save_seconds):
    """(mark, recall, state, step) of the plain script; it goes on until the last mark."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    prepared = prepare({"data": options.data, "depth": "full"})
    items = make_dataset(prepared.recipe, prepared.catalogue)
    body: Any = model_of(prepared.recipe, items).backbone.body
    torch.save(body.state_dict(), work / "start.pt")
    reader, split = prepared.catalogue.reader, prepared.split
    assert isinstance(reader, ImageFiles), "the bench trains on image files"
    indices = [*split.train.tolist(), *split.validation.tolist()]  # it has no use for validation classes
    task = {
        "files": [str(reader.path(index).resolve()) for index in indices],
        "labels": prepared.catalogue.labels[indices].tolist(),
        "weights": str(work / "start.pt"),
    }
    (work / "task.json").write_text(json.dumps(task))
    marks = marks_up_to(options.minutes)
    command = [sys.executable, "-m", "bench.plain_pml", str(work / "task.json"), str(work / "saved"), "--marks"]
    command += [",".join(f"{mark:g}" for mark in marks), "--began", "BEGAN", "--seed", str(options.seed)]
    command += PML[options.subject]
    # It saves by itself, at the first step after a mark: until then there is nothing to copy, and it ends by itself.
    watch(command, [*marks, float("inf")], work, newest=lambda: None)
    rows = []
    for mark in marks:
        model = plain_pml.new_model()
        model.load_state_dict(torch.load(work / "saved" / f"{mark:g}.pt", weights_only=True))
        rows.append((mark, _recall(model, items, prepared), TRAINING, None))
    return rows, None


def describe(catalogue: Catalogue):
    """The files of a catalogue in words."""
    files = describe_files(catalogue)
    assert files is not None, "the bench trains on image files"
    quality = "" if files["jpeg_quality"] is None else f" of quality {files['jpeg_quality']}"
    return f"{files['format']} files{quality}, shorter side {files['shorter_side']} pixels"


def commit():
    """The commit that was measured, with a mark if there were changes."""
    words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def read_rows(path):
    """The rows of a file, none if there is none."""
    if not path.is_file():
        return []

    def value(name, text):
        kind = {"seed": int, "step": int, "minute": float, "recall": float, "ended": float}.get(name, str)
        return None if text == "" and kind is not str else kind(text)

    with path.open(newline="") as file:
        return [Row(**{name: value(name, text) for name, text in row.items()}) for row in csv.DictReader(file)]


def write_rows(path, rows):
    """Put rows into a file in place of those with the same subject, seed and minute."""
    keys = {row.key for row in rows}
    merged = sorted([*(row for row in read_rows(path) if row.key not in keys), *rows], key=lambda row: row.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".part").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        for row in merged:
            shown = row._replace(recall=None if row.recall is None else round(row.recall, 3))
            shown = shown._replace(ended=None if row.ended is None else round(row.ended, 2))
            writer.writerow(["" if field is None else field for field in shown])
    os.replace(path.with_suffix(".part"), path)


def markdown(rows):
    """The table: a line per subject, a column per minute, the mean over seeds."""
    minutes = sorted({row.minute for row in rows})
    lines = []
    for subject in dict.fromkeys(row.subject for row in rows):
        own = [row for row in rows if row.subject == subject]
        ends = [row.ended for row in own if row.ended is not None]
        end = f"{statistics.mean(ends):.0f}" if ends else "–"
        lines.append([subject, str(len({row.seed for row in own})), *(_cell(own, minute) for minute in minutes), end])
    columns = ["", "seeds", *(f"{minute:g} min" for minute in minutes), "ends after, min"]
    about = [f"- {row.subject}: `{row.options}`" for row in {row.subject: row for row in rows}.values() if row.options]
    sources = dict.fromkeys((row.data, row.files) for row in rows)
    return "\n".join(
        [
            "# Recall for the time",
            "",
            "Recall@1 in per cent on the unseen classes of "
            + "; ".join(f"`{data}` ({files})" for data, files in sources)
            + ", by the minutes since the start of the process, from image files with empty caches. Several seeds: mean"
            " and standard deviation. Weights are those at that minute, for `unseen` the best so far on its validation"
            " classes; evaluating them on the unseen classes is not counted. – means no weights yet.",
            "",
            *markdown_table(columns, lines),
            "",
            *about,
            *([""] if about else []),
            *(f"{words} Commit {name}." for words, name in dict.fromkeys((row.machine, row.commit) for row in rows)),
            "",
        ]
    )


def _cell(rows, minute):
    # A run that ended keeps its number, also at minutes that only other subjects were measured at.
    values = []
    for seed in sorted({row.seed for row in rows}):
        own = [row for row in rows if row.seed == seed and row.minute <= minute]
        if own and (own[-1].minute == minute or own[-1].state == FINISHED):
            values.append(own[-1].recall)
    measured = [value for value in values if value is not None]
    if not measured:
        return "–" if values else ""
    spread = f" ± {statistics.stdev(measured):.1f}" if len(measured) > 1 else ""
    return f"{statistics.mean(measured):.1f}{spread}"


def draw(rows, path):
    """The picture: recall over minutes, a line per subject, a point where a run ended."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    last = max(row.minute for row in rows)
    for subject in dict.fromkeys(row.subject for row in rows):
        points: dict[float, list[float]] = {}
        for row in (row for row in rows if row.subject == subject and row.recall is not None):
            points.setdefault(row.minute, []).append(row.recall)
        ended = [row for row in rows if row.subject == subject and row.state == FINISHED]
        if ended:
            points.setdefault(last, points[max(points)])
            first = min(ended, key=lambda row: row.minute)
            points.setdefault(first.ended, points[first.minute])
        line = sorted((minute, statistics.mean(recalls)) for minute, recalls in points.items())
        style = "--" if subject in PML else ":" if subject == "untrained" else "-"
        axes.plot(*zip(*line, strict=True), style, marker="o", markersize=3, label=subject)
    axes.set_xlabel("minutes since the start")
    axes.set_ylabel("recall@1 on unseen classes, %")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def measure(options, path):
    """Measure one subject with one seed, and put its rows into the file."""
    subject = options.name or options.subject
    known = [row for row in read_rows(path) if (row.subject, row.seed) == (subject, options.seed)]
    if known and max(row.minute for row in known) >= options.minutes:
        print(f"{subject}, seed {options.seed}: measured before; remove its rows from {path} to measure again")
        return
    prepared = prepare({"data": options.data, "depth": "frozen"})
    work = options.work.resolve() / f"{subject.replace(' ', '_').replace('/', '_')}-{options.seed}"
    save_seconds = min(30.0, 3 * options.minutes)  # the default of `unseen train`, but in the shortest tries
    how = measure_pml if options.subject in PML else measure_ours
    before = machine()
    measured, ended = how(options, work, save_seconds)
    common = {
        "subject": subject,
        "seed": options.seed,
        "ended": ended,
        "data": as_record(options.data, "data")["name"],
        "files": describe(prepared.catalogue),
        "options": " ".join(options.options),
        "commit": commit(),
        "machine": before,
    }
    rows = [Row(minute=mark, recall=recall, state=state, step=step, **common) for mark, recall, state, step in measured]
    write_rows(path, rows)
    for row in rows:
        print(f"{row.subject}, seed {row.seed}, {row.minute:g} min: {row.recall} ({row.state})")
    shutil.rmtree(work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="", help="as `unseen train` takes it: cub200=FOLDER")
    parser.add_argument("--subject", choices=[*OURS, *PML])
    parser.add_argument("--name", default="", help="of the row; by default the subject")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("out") / "quality", help="folder of runs and caches")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true", help="write quality.md and quality.png from quality.csv")
    parser.add_argument("options", nargs="*", help="after --: options of `unseen train`")
    options = parser.parse_args()
    path = options.output / "quality.csv"
    if options.subject:
        if not options.data:
            parser.error("--data is missing")
        measure(options, path)
    if options.write:
        rows = read_rows(path)
        (options.output / "quality.md").write_text(markdown(rows))
        draw(rows, options.output / "quality.png")
        print(markdown(rows))


if __name__ == "__main__":
    main()
