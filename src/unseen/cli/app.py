"""The commands. Heavy packages are imported inside the commands, so that help and lists start quickly."""

from typing import Annotated

import typer

from unseen.cli import analyse, data, splits
from unseen.cli.calibrate import calibrate
from unseen.cli.compare import compare
from unseen.cli.demo import demo
from unseen.cli.embed import embed
from unseen.cli.evaluate import evaluate
from unseen.cli.export import export
from unseen.cli.failures import failures
from unseen.cli.list import list_components
from unseen.cli.report import report
from unseen.cli.shift_check import shift_check
from unseen.cli.show import show
from unseen.cli.study import study
from unseen.cli.toy import toy
from unseen.cli.train import train

app = typer.Typer(
    name="unseen",
    help="Deep metric learning: train embeddings that retrieve classes never seen in training, and evaluate them.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

app.command("demo", help="Run the study that ships with the package and write its report.")(demo)
app.command("train", help="Train one model and score it on unseen classes.")(train)
app.command("evaluate", help="Score embeddings, or a trained run, on unseen classes.")(evaluate)
app.command("compare", help="Compare two runs, or two files of embeddings, on the same test set.")(compare)
app.command("failures", help="Show where a model fails: worst queries, confused classes, near duplicates.")(failures)
app.command("calibrate", help="Find the similarity threshold that tells the same item from another.")(calibrate)
app.command("embed", help="Write the embeddings of any data by a trained run.")(embed)
app.command("export", help="Write a trained run as an ONNX or TorchScript file for other programs.")(export)
app.command("shift-check", help="Measure the shift from training to deployment data and forecast recall.")(shift_check)
app.command("study", help="Run a grid of data x split x method x seed; resumes an interrupted one.")(study)
app.command("report", help="Write the HTML report and the tables of a study or a run.")(report)
app.command("list", help="List losses, miners, samplers, backbones, data, splits, scores, recipes, studies, ...")(
    list_components
)
app.command("show", help="Print the complete settings of a run without running it.")(show)
app.command("toy", help="Show on 2D toy examples what keeps an embedding from collapsing, and what does not.")(toy)
app.add_typer(analyse.app, name="analyse")
app.add_typer(data.app, name="data")
app.add_typer(splits.app, name="splits")


def _version(is_requested: bool) -> None:
    if is_requested:
        import unseen

        typer.echo(f"unseen {unseen.__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before a command."""
