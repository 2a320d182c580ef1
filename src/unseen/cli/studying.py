"""`unseen demo`, `unseen study` and `unseen report`: grids of runs and what people look at afterwards."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from unseen.cli import options
from unseen.cli.analyse import analyse

Out = Annotated[Path | None, typer.Option(help="Folder of the study; out/NAME when left out.")]


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the demo.")] = Path("out/demo"),
    workers: options.Workers = 2,
) -> None:
    """Compare losses on the characters that ship with the package, and write the report."""
    _study("demo", None, out, workers)


def study(
    plan: Annotated[str, typer.Argument(help="A plan that ships (unseen list studies) or a YAML file.")],
    data: options.Data = None,
    ladder: Annotated[
        str | None, typer.Option(help="The file of the ladder, for a study over its rungs (unseen splits build).")
    ] = None,
    out: Out = None,
    workers: options.Workers = 2,
    cache: options.Cache = None,
    retry_failed: Annotated[bool, typer.Option(help="Try cells that failed before once more.")] = False,
) -> None:
    """Run what is missing of a plan's cells, then write the report; the same command continues an interrupted study."""
    _study(plan, data, out, workers, cache, retry_failed, ladder)


def _study(
    plan_name: str,
    data: str | None,
    out: Path | None,
    workers: int,
    cache: Path | None = None,
    retry_failed: bool = False,
    ladder: str | None = None,
) -> None:
    from unseen.analyses import check_analyses
    from unseen.core.console import console
    from unseen.studies import fill_caches, load_plan, plan_cells, run_cell, run_study
    from unseen.studies.cells import CACHE_OF_CELLS
    from unseen.studies.plan_files import study_folder

    screen = console()
    plan = load_plan(plan_name, data, ladder=ladder, folder=out, cache=cache)
    check_analyses(plan.analyses)
    folder = out or study_folder(plan.name)
    cells = plan_cells(plan)
    try:
        outcome = run_study(
            cells,
            folder,
            run_cell,
            plan=plan.to_mapping(),
            workers=workers,
            retry_failed=retry_failed,
            environment={} if cache is None else {CACHE_OF_CELLS: str(cache.absolute())},
            before=partial(fill_caches, cache=cache),
        )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    screen.print(f"{outcome.done} of {len(cells)} cells are done, {outcome.finished_now} of them now")
    if not outcome.failed:
        for name, settings in plan.analyses.items():
            analyse(name, folder, dict(settings), cache)
    _report(folder)
    if outcome.failed:
        screen.print("failed cells stay failed until they are asked for again: --retry-failed")
        raise typer.Exit(1)


def report(folder: Annotated[Path, typer.Argument(help="The folder of a study or of a run.")]) -> None:
    """Write report.html and the tables (CSV, Markdown, LaTeX) into the folder."""
    _report(folder)


def _report(folder: Path) -> None:
    from unseen.core.console import console
    from unseen.reports import collect, terminal_table, write_report, write_tables

    screen = console()
    content = collect(folder)
    for part in terminal_table(content, screen.width):
        screen.print(part)
    with screen.status("drawing the report"):
        write_report(content, folder / "report.html")
        write_tables(content, folder)
    screen.print(f"wrote {folder / 'report.html'} (open it in a browser) and the tables beside it")
