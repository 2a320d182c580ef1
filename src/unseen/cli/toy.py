"""`unseen toy`: 2D examples that show what keeps an embedding from collapsing."""

from pathlib import Path
from typing import Annotated

import typer


def toy(
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the numbers.")] = Path("out/toy"),
) -> None:
    """Train the 2D toy examples with and without regularisation; print, draw and write the results."""
    from unseen.analyses.toy.figure import TOY_COLUMNS, seeds_with_effect, toy_rows, write_toys
    from unseen.analyses.toy.train import EXAMPLES, THRESHOLD, train_toys
    from unseen.core.checks import check_count
    from unseen.core.console import console, progress_bar, table

    check_count("toy", "--seeds", seeds)
    runs = []
    with progress_bar("training", total=seeds) as bar:
        for seed in range(seeds):
            runs += train_toys(seed)
            bar.advance()
    screen = console()
    title = "toy examples: mean (range) over seeds; second normalised singular value of the training points"
    screen.print(table(title, TOY_COLUMNS, toy_rows(runs), left=2))
    for example in EXAMPLES:
        count = len(seeds_with_effect(runs, example))
        screen.print(
            f"{example}: the second singular value is above {THRESHOLD} with regularisation and below it without "
            f"on {count} of {seeds} seeds"
        )
    picture, *others = write_toys(runs, out)
    screen.print(f"wrote {picture}, and its numbers as {' and '.join(path.name for path in others)}")
