"""`unseen calibrate`: the similarity threshold that tells the same item from another."""

import json
from typing import Annotated

import typer
from rich.console import Console

from unseen.cli import options
from unseen.cli.target import LabelFile, TargetPath, read_target


def calibrate(
    target: TargetPath,
    labels: LabelFile = None,
    rate: Annotated[
        float, typer.Option(help="False positive rate: share of negative pairs above the threshold.")
    ] = 1e-3,
    engine: options.Engine = "auto",
    as_json: options.Json = False,
) -> None:
    """Print the similarity threshold at a chosen false positive rate, and its rates on held-out classes."""
    from dataclasses import asdict

    from unseen.core.console import table
    from unseen.evaluation import calibrate as calibrate_threshold

    embeddings, arguments, _, _ = read_target(target, labels, engine)
    result = calibrate_threshold(embeddings, arguments["labels"], false_positive_rate=rate)
    if as_json:
        typer.echo(json.dumps(asdict(result), indent=2))
        return
    rows = [
        ["threshold", f"{result.threshold:.5f}", _interval(result.threshold_interval)],
        ["false positives, all pairs", f"{result.false_positive_rate:.3g}", ""],
        ["true positives, all pairs", f"{result.true_positive_rate:.3g}", ""],
        [
            "false positives, held-out classes",
            f"{result.held_out_false_positive_rate:.3g}",
            _interval(result.held_out_false_positive_rate_interval),
        ],
        [
            "true positives, held-out classes",
            f"{result.held_out_true_positive_rate:.3g}",
            _interval(result.held_out_true_positive_rate_interval),
        ],
    ]
    Console(highlight=False).print(table("calibration", ["what", "value", "95% interval"], rows))


def _interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.5g} to {interval[1]:.5g}"
