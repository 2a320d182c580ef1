"""`unseen evaluate`: every score of embeddings, or of a trained run, on unseen classes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console

from unseen.cli import options
from unseen.cli.target import LabelFile, Memory, TargetPath, read_target
from unseen.core.errors import ConfigError

if TYPE_CHECKING:
    from unseen.evaluation import Scores

Include = Annotated[str | None, typer.Option("--scores", help="Compute only these: recall@1,map@r")]
Exclude = Annotated[
    str | None,
    typer.Option("--without", help="Leave these out: nmi,ami or clusters, structure, spectrum, curves, ranks"),
]
Ks = Annotated[str, typer.Option(help="The values of k for recall@k and precision@k.")]
Draws = Annotated[int, typer.Option(help="Bootstrap draws of classes for the intervals; 0 for no intervals.")]


def evaluate(
    target: TargetPath,
    labels: LabelFile = None,
    scores: Include = None,
    without: Exclude = None,
    ks: Ks = "1,2,4,8",
    draws: Draws = 1000,
    memory: Memory = 500,
    engine: options.Engine = "auto",
    as_json: options.Json = False,
) -> None:
    """Print the scores of the papers, exact, with confidence intervals over classes."""
    result = Evaluation(scores, without, ks, draws, memory, engine).run(target, labels)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=2))
    else:
        Console(highlight=False).print(result.table())


class Evaluation(NamedTuple):
    """The options that `evaluate` and `compare` share."""

    scores: str | None
    without: str | None
    ks: str
    draws: int
    memory: int
    engine: str

    def run(self, target: Path, labels: Path | None) -> "Scores":
        """Evaluate the embeddings of a run or of a file."""
        from unseen.evaluation import Bootstrap, evaluate

        ks = parse_integers(self.ks)
        embeddings, arguments, _, _ = read_target(target, labels, self.engine)
        bootstrap = Bootstrap(draws=self.draws) if self.draws else None
        return evaluate(
            embeddings,
            scores=self.scores,
            without=self.without,
            ks=ks,
            bootstrap=bootstrap,
            memory=self.memory,
            **arguments,
        )


def parse_integers(text: str) -> list[int]:
    """The integers of `--ks 1,10,100`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigError("--ks must be integers separated by commas", got=text, hint="Write --ks 1,10,100.")
    return [int(part) for part in parts]
