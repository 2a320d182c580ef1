"""`unseen train`: one run from data to a table of scores on unseen classes."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from unseen.cli import options


@options.takes_run_settings
def train(
    settings: dict[str, Any],
    out: Annotated[Path | None, typer.Option(help="Folder of the run; out/runs/NAME when left out.")] = None,
    workers: options.Workers = 0,
    save_seconds: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 30.0,
    cache: options.Cache = None,
    check_files: Annotated[bool, typer.Option(help="Decode every image once before the run starts.")] = True,
) -> None:
    """Train one model and score it on unseen classes; the same command continues an interrupted run."""
    from unseen.core.console import Bar, console, progress_bar
    from unseen.evaluation import Scores
    from unseen.runs import prepare, run

    screen = console()
    prepared = prepare(settings)
    recipe = prepared.recipe
    method = recipe.label
    folder = out or Path("out") / "runs" / f"{recipe.data['name']}-{method}-{recipe.name[:8]}"
    was_finished = (folder / "result.json").exists()
    screen.print(f"{prepared.split.describe()}")
    if (folder / "checkpoints").is_dir() and not was_finished:
        screen.print(f"continuing the run in {folder}")
    try:
        with ExitStack() as open_bars:
            bars: list[Bar] = []

            def progress(done: int, total: int, words: str) -> None:
                if not bars:  # what comes before the first step, such as a cache, has a bar of its own
                    bars.append(open_bars.enter_context(progress_bar(method, total=total, done=done)))
                bars[0].set(done, total, words)

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
    scores = Scores.from_dict(result["scores"])
    screen.print(f"{method} on {scores.classes:,} unseen classes of {recipe.data['name']}")
    screen.print(scores.table())
    screen.print(f"wrote {folder}: result.json (scores), model.safetensors (weights), run.json (every setting)")
    screen.print(f"next: unseen report {folder}")
