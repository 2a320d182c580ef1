"""`unseen compare`: paired differences of two models on the same test set."""

import json

import typer
from rich.console import Console

from unseen.cli import options
from unseen.cli.evaluate import Draws, Evaluation, Exclude, Include, Ks
from unseen.cli.target import LabelFile, Memory, TargetPath


def compare(
    first: TargetPath,
    second: TargetPath,
    labels: LabelFile = None,
    scores: Include = None,
    without: Exclude = None,
    ks: Ks = "1,2,4,8",
    draws: Draws = 1000,
    memory: Memory = 500,
    engine: options.Engine = "auto",
    as_json: options.Json = False,
) -> None:
    """Print the score differences of two models on the same test set, with paired intervals over classes."""
    from unseen.evaluation import compare as compare_scores

    evaluation = Evaluation(scores, without, ks, draws, memory, engine)
    comparison = compare_scores(evaluation.run(first, labels), evaluation.run(second, labels))
    if as_json:
        typer.echo(json.dumps({name: difference._asdict() for name, difference in comparison.items()}, indent=2))
    else:
        Console(highlight=False).print(comparison.table())
