"""`unseen export`: a trained run as a file for other programs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from unseen.cli import options


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    format: Annotated[str, typer.Option(help="onnx or torchscript")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="The file to write; model.onnx in the run's folder if none.")] = None,
    precision: Annotated[str, typer.Option(help="fp32, fp16, or int8 (onnx only)")] = "fp32",
    unit_length: Annotated[
        bool, typer.Option("--unit-length/--raw", help="Embeddings of length 1, or as the run computes them.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Measure recall@1 of the exported model on the test items.")
    ] = True,
    as_json: options.Json = False,
) -> None:
    """Write a model file, FILE.json that describes its inputs and outputs, and preprocess.py for images."""
    from unseen.core.console import console, progress_bar
    from unseen.core.files import read_json
    from unseen.search import ExportSettings, export_run

    settings = ExportSettings(format, precision, unit_length, measure)  # type: ignore[arg-type]  # checked there
    with progress_bar("measuring", total=1) as bar:
        path = export_run(run, out, settings, bar.set)
    description = read_json(path.with_name(f"{path.name}.json"))
    if as_json:
        typer.echo(json.dumps(description, indent=2))
        return
    shape = " x ".join(map(str, description["input"]["shape"]))
    difference = description["agreement"]["largest_relative_difference"]
    screen = console()
    screen.print(
        f"wrote {path}: {path.stat().st_size / 1e6:.1f} MB, {precision}, {shape} {description['input']['dtype']}"
    )
    screen.print(f"embeddings differ from the run's by at most {difference:.1e} of their length")
    recall = description["recall@1"]
    if recall is not None:
        screen.print(
            f"recall@1 on {recall['queries']} queries: run {recall['run']:.4f}, exported {recall['exported']:.4f}"
        )
