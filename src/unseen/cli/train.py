"""`unseen train`: one run, from data to a table of scores on unseen classes."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from unseen.cli import options
from unseen.core.config import Record


@options.takes_run_settings
def train(
    settings: Record,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; out/runs/NAME by default.")] = None,
    workers: options.Workers = 0,
    save_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 30.0,
    cache: options.Cache = None,
    check_files: Annotated[bool, typer.Option(help="Decode every image once before the run starts.")] = True,
) -> None:
    """Train one model and score it on unseen classes; the same command resumes an interrupted run."""
    from unseen.core.console import ProgressBar, console, progress_bar
    from unseen.evaluation import Scores
    from unseen.runs import RunFolder, prepare, run

    screen = console()
    prepared = prepare(settings)
    recipe = prepared.recipe
    folder = out or Path("out") / "runs" / f"{recipe.data['name']}-{recipe.label}-{recipe.name[:8]}"
    run_folder = RunFolder(folder)
    was_finished = run_folder.is_finished
    screen.print(f"{prepared.split.describe()}")
    if run_folder.checkpoints.is_dir() and not was_finished:
        screen.print(f"resuming the run in {folder}")
    try:
        with ExitStack() as stack:
            bar: ProgressBar | None = None

            def progress(done: int, total: int, message: str) -> None:
                nonlocal bar
                if bar is None:  # opened by the first step: what comes before it, such as a cache, has its own bar
                    bar = stack.enter_context(progress_bar(recipe.label, total=total, done=done))
                bar.set(done, total, message)

            result = run(
                replace(prepared, images_checked=not check_files),
                folder,
                workers=workers,
                save_seconds=save_seconds,
                cache=cache,
                progress=progress,
            )
    except KeyboardInterrupt:
        screen.print(f"interrupted; the same command continues from the last checkpoint in {folder}")
        raise typer.Exit(130) from None
    if was_finished:
        screen.print("this run was finished before; these are its scores")
    if result["chosen_epoch"] == 0:
        screen.print(
            "no epoch was better on the validation classes than the start: these are the weights before training"
        )
    if result["blend"] is not None and result["blend"]["scores"] is not None:
        screen.print(f"blend chosen on the validation classes: {result['blend']['share']:g} of the trained weights")
    scores = Scores.from_dict(result["scores"])
    screen.print(f"{recipe.label} on {scores.classes:,} unseen classes of {recipe.data['name']}")
    screen.print(scores.table())
    screen.print(f"wrote {folder}: result.json (scores), model.safetensors (weights), run.json (every setting)")
    screen.print(f"next: unseen report {folder}")
