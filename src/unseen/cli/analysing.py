"""`unseen toy` and `unseen analyse`: pictures that explain why a method generalises, or does not."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unseen.cli import options

if TYPE_CHECKING:
    from unseen.core.config import Record


def toy(
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the numbers.")] = Path("out/toy"),
) -> None:
    """Train the 2D toy examples with and without regularisation; print, draw and write what became of them."""
    from unseen.analyses.toy import EXAMPLES, THRESHOLD, train_toys
    from unseen.analyses.toy_figure import TOY_COLUMNS, seeds_with_effect, toy_rows, write_toys
    from unseen.core.checks import check_count
    from unseen.core.console import console, progress_bar, table

    check_count("toy", "--seeds", seeds)
    runs = []
    with progress_bar("training", total=seeds) as bar:
        for seed in range(seeds):
            runs += train_toys(seed)
            bar.advance()
    screen = console()
    screen.print(
        table(
            "toy examples: mean (range) over seeds; second normalised singular value of the training points",
            TOY_COLUMNS,
            toy_rows(runs),
            left=2,
        )
    )
    for example in EXAMPLES:
        found = len(seeds_with_effect(runs, example))
        screen.print(
            f"{example}: the second singular value is above {THRESHOLD} with regularisation and below it without "
            f"on {found} of {seeds} seeds"
        )
    picture, *others = write_toys(runs, out)
    screen.print(f"wrote {picture}, and its numbers as {' and '.join(path.name for path in others)}")


app = typer.Typer(
    help="Explain a finished study: how its embeddings use their dimensions, and what that is worth.",
    no_args_is_help=True,
)
Folder = Annotated[Path, typer.Argument(help="The folder of a finished study.")]
Score = Annotated[str, typer.Option(help="The score on unseen classes that methods are compared by.")]


ReportSample = Annotated[str, typer.Option(help="What to take, separated by commas; everything when left out.")]


@app.command("spectral-decay", help="Spectral decay against recall of all methods, with and without regularisation.")
def spectral_decay(folder: Folder, score: Score = "recall@1") -> None:
    """Fig. 10 of Roth et al. for a study such as `regularisation`."""
    analyse("spectral-decay", folder, {"score": score})


@app.command("spectra", help="Singular values with and without rho-regularisation, of all images and by class.")
def spectra(folder: Folder, score: Score = "recall@1") -> None:
    """Fig. 11 of Roth et al. for a study such as `regularisation`."""
    analyse("spectra", folder, {"score": score})


@app.command("p-switch", help="Recall and spectral decay over the share of switched triplets.")
def p_switch(folder: Folder, score: Score = "recall@1") -> None:
    """Fig. 8 of Roth et al. for a study such as `p-switch`."""
    analyse("p-switch", folder, {"score": score})


@app.command("mixup", help="Singular values, spectral decay and recall with and without manifold mixup.")
def mixup(folder: Folder, score: Score = "recall@1") -> None:
    """Fig. 13 of Roth et al. for a study such as `mixup`."""
    analyse("mixup", folder, {"score": score})


@app.command("generalisation", help="A score over the rungs of a ladder, its aggregate, and how ranks change.")
def generalisation(
    folder: Folder,
    score: Score = "recall@1",
    distance: Annotated[str, typer.Option(help="Distances of rungs: class (class means) or sample.")] = "class",
) -> None:
    """Curves and aggregated scores of Milbich et al. for a study such as `ladder-frozen`."""
    analyse("generalisation", folder, {"score": score, "distance": distance})


@app.command("structure", help="Scores of structure against a retrieval score over all rungs and methods.")
def structure(folder: Folder, score: Score = "recall@1") -> None:
    """Figs. 6 and 7 of Milbich et al. for a study such as `ladder-frozen`."""
    analyse("structure", folder, {"score": score})


@app.command("few-shot", help="What a few images of each test class are worth, for a study over rungs of a ladder.")
def few_shot(
    folder: Folder,
    score: Annotated[str, typer.Option(help="recall@1 or map@1000")] = "recall@1",
    shots: Annotated[str, typer.Option(help="Images of a class: some of 2, 5 and 10.")] = "2,5,10",
    episodes: Annotated[int, typer.Option(help="Episodes, at most 10.")] = 10,
    methods: ReportSample = "",
    splits: ReportSample = "",
    seeds: ReportSample = "",
    workers: options.Workers = 2,
    cache: options.Cache = None,
) -> None:
    """Few-shot adaptation of Milbich et al.; what was computed before is read again."""
    settings = {
        "score": score,
        "shots": _numbers(shots),
        "episodes": episodes,
        "methods": _texts(methods),
        "splits": _texts(splits),
        "seeds": _numbers(seeds),
        "workers": workers,
    }
    analyse("few-shot", folder, settings, cache)


@app.command("ladder", help="The distances of the ladder that a study climbs.")
def ladder(folder: Folder) -> None:
    """The distance of every step, as `unseen splits show` draws it."""
    analyse("ladder", folder, {})


@app.command("maps", help="Maps of an easy, a middle and a hard rung of the ladder that a study climbs.")
def maps(folder: Folder, cache: options.Cache = None) -> None:
    """The same points by t-SNE and by UMAP, coloured by the side they are on."""
    for name in ("map-tsne", "map-umap"):
        analyse(name, folder, {}, cache)


def _texts(joined: str) -> list[str]:
    return [each.strip() for each in joined.split(",") if each.strip()]


def _numbers(joined: str) -> list[int | str]:
    """Whole numbers; what is none stays a text, for the analysis to refuse."""
    return [int(each) if each.isdecimal() else each for each in _texts(joined)]


def analyse(name: str, folder: Path, settings: "Record", cache: Path | None = None) -> None:
    """Make an analysis of a study, print it, and write it into the study's folder."""
    from unseen.analyses.base import write_analysis
    from unseen.analyses.registry import ANALYSES, settings_of
    from unseen.analyses.stored import FOLDER
    from unseen.core.console import console, progress_bar, table

    if "cache" in settings_of(name):
        settings = settings | {"cache": cache}
    with progress_bar(name, total=1) as bar:
        found = ANALYSES[name](folder, bar.set, **settings)
    screen = console()
    if found.shown:
        screen.print(table(found.name, found.shown, found.lines(), left=3))
    for remark in found.remarks:
        screen.print(remark, markup=False, soft_wrap=True)
    picture, numbers = write_analysis(found, folder / FOLDER)
    screen.print(f"wrote {picture}, and its numbers as {numbers.name} beside it", soft_wrap=True)
