"""`unseen report`: the HTML page and the tables of a study or a run."""

from pathlib import Path
from typing import Annotated

import typer


def report(folder: Annotated[Path, typer.Argument(help="The folder of a study or of a run.")]) -> None:
    """Write report.html and the tables (CSV, Markdown, LaTeX) into the folder."""
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
