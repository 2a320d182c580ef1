"""The commands. Nothing heavy is imported before a command needs it, so that help and lists are quick."""

from typing import Annotated

import typer

from unseen.cli import analyse, data, listing, measuring, shifting, showing, splits, studying, toy, training

app = typer.Typer(
    name="unseen",
    help="Deep metric learning: embeddings for classes never seen in training, and an honest measure of them.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

app.command("demo", help="Run the study that ships with the package and write its report.")(studying.demo)
app.command("train", help="Train one model and score it on unseen classes.")(training.train)
app.command("evaluate", help="Score embeddings, or a trained run, on unseen classes.")(measuring.evaluate)
app.command("compare", help="Compare two runs, or two files of embeddings, on the same test set.")(measuring.compare)
app.command("failures", help="Show where a run, or embeddings, fail: queries, classes, near duplicates.")(
    measuring.failures
)
app.command("calibrate", help="Find the similarity that tells the same item from another.")(measuring.calibrate)
app.command("embed", help="Write embeddings of any data by a trained run.")(measuring.embed)
app.command("shift-check", help="Say how far deployment data are from training data, and what recall to expect.")(
    shifting.shift_check
)
app.command("study", help="Run a grid of data x split x method x seed; an interrupted one continues.")(studying.study)
app.command("report", help="Write the HTML report and the tables of a study or a run.")(studying.report)
app.command("list", help="List what there is: losses, miners, samplers, backbones, data, splits, scores, ...")(
    listing.list_
)
app.command("show", help="Show a run as it would happen, with every setting written out.")(showing.show)
app.command("toy", help="Show on 2D toy examples what keeps an embedding from collapsing, and what does not.")(toy.toy)
app.add_typer(analyse.app, name="analyse")
app.add_typer(data.app, name="data")
app.add_typer(splits.app, name="splits")


def _version(asked: bool) -> None:
    if asked:
        import unseen

        typer.echo(f"unseen {unseen.__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options that stand before a command."""
