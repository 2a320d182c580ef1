"""`unseen demo`: the study that ships with the package."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from unseen.cli import options
from unseen.cli.study import study

_FOLDER = Path("out/demo")


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the demo.")] = _FOLDER,
    complete: Annotated[
        bool, typer.Option("--all", help="Continue with scripts from near to far, and adapting to a few images.")
    ] = False,
    workers: options.Workers = 2,
) -> None:
    """Compare losses on the characters that ship with the package, and write the report."""
    from unseen.core.console import console

    study("demo-all" if complete else "demo", out=out, workers=workers)
    if not complete:
        program = "unseen" if shutil.which("unseen") else sys.argv[0]
        folder = "" if out == _FOLDER else f" --out {out}"
        console().print(
            f"`{program} demo --all{folder}` continues in this folder: three of the losses on one script after another "
            "from near to far; adaptation to a few images of each character; a second seed for unseen scripts. "
            "It takes about as long again.",
            markup=False,
            soft_wrap=True,
        )
