"""The toy examples as a picture, a table and numbers for other programs."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unseen.analyses.toy.train import CLASSES, EXAMPLES, THRESHOLD, VARIANTS, ToyRun
from unseen.core.csv_table import csv_of
from unseen.core.files import write_bytes, write_json, write_text
from unseen.figures.style import BLUE, FAINT, GREEN, GREY, ORANGE, PURPLE, RED, SKY, YELLOW, panels, render_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = ("contrastive", "regularised")
_SHADES = {"contrastive": BLUE, "regularised": ORANGE}
_TRAIN_COLOURS, _TEST_COLOURS = (BLUE, SKY, GREEN, YELLOW), (RED, ORANGE, PURPLE, "#5a3d8a")
_OUTER = 1.3  # test embeddings are drawn on a wider circle, as both sides often lie on top of each other


def write_toys(runs: Sequence[ToyRun], folder: Path) -> tuple[Path, ...]:
    """Write toy.png, toy.csv and toy.json into a folder; returns their paths."""
    paths = tuple(folder / f"toy.{ending}" for ending in ("png", "csv", "json"))
    write_bytes(paths[0], render_png(lambda: toy_figure(runs)))
    write_text(paths[1], toy_csv(runs))
    records = []
    for run in runs:
        fields = {name: own.tolist() if isinstance(own, np.ndarray) else own for name, own in vars(run).items()}
        records.append({"p_switch": _p_switch(run), **fields})
    write_json(paths[2], {"threshold": THRESHOLD, "runs": records})
    return paths


def seeds_with_effect(runs: Sequence[ToyRun], example: str) -> list[int]:
    """The seeds whose second singular value is above the threshold with regularisation and below it without."""
    second = {(run.variant, run.seed): run.spectrum[1] for run in runs if run.example == example}
    seeds = dict.fromkeys(seed for _, seed in second)
    return [seed for seed in seeds if second["contrastive", seed] < THRESHOLD < second["regularised", seed]]


def toy_rows(runs: Sequence[ToyRun]) -> list[list[str]]:
    """A row for each example and variant: mean and range over seeds of each number."""
    rows = []
    for example, variant in product(EXAMPLES, VARIANTS):
        own = [run for run in runs if (run.example, run.variant) == (example, variant)]
        if own:
            numbers = ([run.spectrum[1] for run in own], [run.reach for run in own], [run.recall for run in own])
            rows.append([example, variant, *map(_range, numbers), str(len(own))])
    return rows


TOY_COLUMNS = ("example", "variant", "second value", "test reach", "test recall@1", "seeds")


def _range(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def toy_csv(runs: Sequence[ToyRun]) -> str:
    """A row for each run."""
    heads = ["example", "variant", "p_switch", "seed", "first", "second", "reach", "recall@1"]
    rows = (
        [run.example, run.variant, _p_switch(run), run.seed, *run.spectrum.tolist(), run.reach, run.recall]
        for run in runs
    )
    return csv_of(heads, rows)


def _p_switch(run: ToyRun) -> float:
    return EXAMPLES[run.example].p_switch if VARIANTS[run.variant].switches else 0.0


def toy_figure(runs: Sequence[ToyRun]) -> "Figure":
    """A row for each example: its points, both embeddings of the first seed, training and spectra of all seeds."""
    shown = [name for name in EXAMPLES if any(run.example == name for run in runs)]
    figure, rows = panels(len(shown), 5, width=13, height=2.75 * len(shown) + 0.3, column_widths=(1, 1, 1, 1.15, 0.9))
    for example, axes in zip(shown, rows, strict=True):
        own = [run for run in runs if run.example == example]
        first = {variant: next(run for run in own if run.variant == variant) for variant in SHOWN}
        _draw_points(axes[0], first["contrastive"])
        axes[0].set_ylabel(EXAMPLES[example].title, fontsize=11, fontweight="bold", labelpad=8)
        for panel, variant in zip(axes[1:3], SHOWN, strict=True):
            _draw_circle(panel, first[variant])
        _draw_training(axes[3], own)
        _draw_spectra(axes[4], own)
    titles = ("points", "contrastive loss", "regularised", "training", "spectrum")
    for panel, title in zip(rows[0], titles, strict=True):
        panel.set_title(title, pad=8)
    for mark, name in (("o", "training classes"), ("D", "test classes")):
        rows[0][0].scatter([], [], marker=mark, c=GREY, s=24, label=name)
    rows[0][0].legend(loc="upper left", handletextpad=0.1, borderaxespad=0, fontsize=8)
    rows[-1][3].set_xlabel("iteration")
    rows[0][3].legend(loc="upper left", handlelength=1.4, borderaxespad=0.1)
    return figure


def _by_class(axes: "Axes", points: np.ndarray, colours: Sequence[str], mark: str, size: float) -> None:
    for own, colour in zip(np.split(points, CLASSES), colours, strict=True):
        axes.scatter(own[:, 0], own[:, 1], s=size, c=colour, marker=mark, linewidths=0.4, edgecolors="white", zorder=3)


def _draw_points(axes: "Axes", run: ToyRun) -> None:
    _by_class(axes, run.train, _TRAIN_COLOURS, "o", 34)
    _by_class(axes, run.test, _TEST_COLOURS, "D", 26)
    axes.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], xlim=(-0.05, 1.1), ylim=(-0.05, 1.1), aspect="equal")


def _draw_circle(axes: "Axes", run: ToyRun) -> None:
    from matplotlib.patches import Circle

    for radius in (1.0, _OUTER):
        axes.add_patch(Circle((0, 0), radius, fill=False, color=FAINT, linewidth=1.0))
    _by_class(axes, run.train_embeddings, _TRAIN_COLOURS, "o", 34)
    _by_class(axes, _OUTER * run.test_embeddings, _TEST_COLOURS, "D", 26)
    axes.set(xlim=(-1.42, 1.42), ylim=(-1.42, 1.42), aspect="equal")
    axes.set_axis_off()
    reach = f"reach of test\npoints {run.reach:.2f}"
    axes.text(0, 0, reach, ha="center", va="center", fontsize=9, color=GREY, linespacing=1.3)


def _draw_training(axes: "Axes", runs: Sequence[ToyRun]) -> None:
    for variant in SHOWN:
        for position, run in enumerate(run for run in runs if run.variant == variant):
            name = variant if position == 0 else None
            axes.plot(run.curve[:, 0], run.curve[:, 1], color=_SHADES[variant], linewidth=1.2, alpha=0.85, label=name)
    axes.axhline(THRESHOLD, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set(ylim=(0, 0.68), yticks=[0, 0.25, 0.5], xticks=[0, 100, 200], xlim=(0, 200))
    axes.set_ylabel("second singular value")


def _draw_spectra(axes: "Axes", runs: Sequence[ToyRun]) -> None:
    for number, variant in enumerate(SHOWN):
        spectra = np.array([run.spectrum for run in runs if run.variant == variant])
        x = np.arange(2) + (number - 0.5) * 0.38
        axes.bar(x, spectra.mean(axis=0), 0.36, color=_SHADES[variant], alpha=0.45, linewidth=0)
        for own in spectra:
            axes.scatter(x, own, s=9, color=_SHADES[variant], zorder=3, linewidths=0)
    axes.axhline(THRESHOLD, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set(xticks=[0, 1], xticklabels=["first", "second"], ylim=(0, 1), yticks=[0, 0.25, 0.5, 0.75, 1])
