"""`unseen toy` and `unseen analyse`: pictures that explain why a method generalises, or does not."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unseen.reports.analysis import Analysis
    from unseen.reports.studied import Studied


def toy(
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the numbers.")] = Path("out/toy"),
) -> None:
    """Train the 2D toy examples with and without regularisation; print, draw and write what became of them."""
    from unseen.core.checks import check_count
    from unseen.core.console import console, progress_bar, table
    from unseen.reports.toy_figure import TOY_COLUMNS, seeds_with_effect, toy_rows, write_toys
    from unseen.studies.toy import EXAMPLES, THRESHOLD, train_toys

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


@app.command("spectral-decay", help="Spectral decay against recall of all methods, with and without regularisation.")
def spectral_decay(folder: Folder, score: Score = "recall@1") -> None:
    """Fig. 10 of Roth et al. for a study such as `regularisation`."""
    from unseen.reports.spectral_decay import spectral_decay as analysis

    _analyse(folder, score, analysis)


@app.command("spectra", help="Singular values with and without rho-regularisation, of all images and by class.")
def spectra(folder: Folder, score: Score = "recall@1") -> None:
    """Fig. 11 of Roth et al. for a study such as `regularisation`."""
    from unseen.reports.paired_spectra import paired_spectra
    from unseen.reports.studied import REGULARISED

    _analyse(folder, score, lambda studied: paired_spectra(studied, REGULARISED, "spectra"))


@app.command("p-switch", help="Recall and spectral decay over the share of switched triplets.")
def p_switch(folder: Folder, score: Score = "recall@1") -> None:
    """Fig. 8 of Roth et al. for a study such as `p-switch`."""
    from unseen.reports.switching import p_switch_sweep

    _analyse(folder, score, p_switch_sweep)


@app.command("mixup", help="Singular values, spectral decay and recall with and without manifold mixup.")
def mixup(folder: Folder, score: Score = "recall@1") -> None:
    """Fig. 13 of Roth et al. for a study such as `mixup`."""
    from unseen.reports.paired_spectra import paired_spectra
    from unseen.reports.studied import MIXED

    _analyse(folder, score, lambda studied: paired_spectra(studied, MIXED, "mixup"))


@app.command("generalisation", help="A score over the rungs of a ladder, its aggregate, and how ranks change.")
def generalisation(
    folder: Folder,
    score: Score = "recall@1",
    distance: Annotated[str, typer.Option(help="Distances of rungs: class (class means) or sample.")] = "class",
) -> None:
    """Curves and aggregated scores of Milbich et al. for a study such as `ladder-frozen`."""
    from unseen.core.checks import check_choice
    from unseen.reports import collect
    from unseen.reports.generalisation import LEVELS
    from unseen.reports.shift_figures import generalisation as analysis

    check_choice("analyse generalisation", "--distance", distance, tuple(LEVELS))
    _tell(folder, analysis(collect(folder), score, distance))


@app.command("structure", help="Scores of structure against a retrieval score over all rungs and methods.")
def structure(folder: Folder, score: Score = "recall@1") -> None:
    """Figs. 6 and 7 of Milbich et al. for a study such as `ladder-frozen`."""
    from unseen.reports import collect
    from unseen.reports.shift_figures import structure_against_shift

    _tell(folder, structure_against_shift(collect(folder), score))


@app.command("few-shot", help="What a few images of each test class are worth, for a study over rungs of a ladder.")
def few_shot(
    folder: Folder,
    score: Annotated[str, typer.Option(help="recall@1 or map@1000")] = "recall@1",
    shots: Annotated[str, typer.Option(help="Images of a class: some of 2, 5 and 10.")] = "2,5,10",
    episodes: Annotated[int, typer.Option(help="Episodes, at most 10.")] = 10,
) -> None:
    """Few-shot adaptation of Milbich et al.; what was computed before is read again."""
    from unseen.core.checks import check_choice
    from unseen.core.console import progress_bar
    from unseen.reports.few_shot_gains import few_shot_gains, read_adapted
    from unseen.shifts.episodes import EPISODES, SHOTS

    counts = [int(each) if each.strip().isdecimal() else each for each in shots.split(",")]
    for count in counts:
        check_choice("few-shot", "--shots", count, SHOTS)
    check_choice("few-shot", "--episodes", episodes, range(1, EPISODES + 1))
    with progress_bar("adapting cells", total=1) as bar:
        cells = read_adapted(folder, shots=[int(count) for count in counts], episodes=episodes, tell=bar.set)
    _tell(folder, few_shot_gains(cells, score))


def _analyse(folder: Path, score: str, analyse: "Callable[[Studied], Analysis]") -> None:
    """Print an analysis of a study's spectra and write it into the study's folder."""
    from unseen.core.console import progress_bar
    from unseen.reports.studied import read_study

    with progress_bar("spectra of cells", total=1) as bar:
        studied = read_study(folder, score, bar.set)
    _tell(folder, analyse(studied))


def _tell(folder: Path, found: "Analysis") -> None:
    """Print an analysis and write it into the study's folder."""
    from unseen.core.console import console, table
    from unseen.reports.analysis import write_analysis

    screen = console()
    if found.shown:
        screen.print(table(found.name, found.shown, found.lines(), left=3))
    for remark in found.remarks:
        screen.print(remark, markup=False, soft_wrap=True)
    picture, numbers = write_analysis(found, folder / "analyses")
    screen.print(f"wrote {picture}, and its numbers as {numbers.name} beside it")
