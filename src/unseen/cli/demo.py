"""`unseen demo`: the study that ships with the package."""

from pathlib import Path
from typing import Annotated

import typer

from unseen.cli import options
from unseen.cli.study import study


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the demo.")] = Path("out/demo"),
    workers: options.Workers = 2,
) -> None:
    """Compare losses on the characters that ship with the package, and write the report."""
    study("demo", out=out, workers=workers)
