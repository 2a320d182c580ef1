"""`unseen study`: a grid of runs, its analyses and its report."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from unseen.cli import options
from unseen.cli.analyse import analyse
from unseen.cli.report import report


def study(
    plan: Annotated[str, typer.Argument(help="A plan that ships (unseen list studies) or a YAML file.")],
    data: options.Data = None,
    ladder: Annotated[
        str | None, typer.Option(help="The ladder file, for a study over its rungs (unseen splits build).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the study; out/NAME by default.")] = None,
    workers: options.Workers = 2,
    cache: options.Cache = None,
    retry_failed: Annotated[bool, typer.Option(help="Run cells again that failed before.")] = False,
) -> None:
    """Run the missing cells of a plan, then write the report; the same command resumes an interrupted study."""
    from unseen.analyses import check_analyses
    from unseen.core.console import console
    from unseen.studies import (
        LocalExecutor,
        RunnerSettings,
        fill_caches,
        load_plan,
        plan_cells,
        prepare_study,
        run_cell,
        run_study,
    )

    screen = console()
    loaded = load_plan(plan, data, ladder=ladder)
    check_analyses(loaded.analyses)
    folder = out or Path("out") / loaded.name
    prepared = prepare_study(loaded, folder, cache=cache)
    cells = plan_cells(prepared)
    executor = LocalExecutor(run_cell, workers=workers)
    settings = RunnerSettings(retry_failed=retry_failed, cache=cache, before=partial(fill_caches, cache=cache))
    try:
        outcome = run_study(cells, folder, executor, plan=prepared.to_mapping(), settings=settings)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    screen.print(f"{outcome.done} of {len(cells)} cells are done, {outcome.finished_now} of them now")
    if not outcome.failed:
        for name, own in loaded.analyses.items():
            analyse(name, folder, own, cache)
    report(folder)
    if outcome.failed:
        screen.print("failed cells are not tried again by themselves; --retry-failed runs them again")
        raise typer.Exit(1)
