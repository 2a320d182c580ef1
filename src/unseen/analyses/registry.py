"""Analyses by name: what `unseen analyse` makes of a finished study, and what a plan may ask for after its cells."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from unseen.analyses.base import Analysis
from unseen.analyses.study_methods import store_of
from unseen.core.checks import check_choice, check_count
from unseen.core.config import Record
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest
from unseen.shifts import Ladder, read_ladder
from unseen.shifts.episodes import EPISODES, SHOTS
from unseen.studies import Store

Progress = Callable[[int, int], None]


def spectral_decay(folder: Path, progress: Progress, *, score: str = "recall@1") -> Analysis:
    """Spectral decay against a score of all methods, with and without regularisation: fig. 10 of Roth et al."""
    from unseen.analyses.spectral_decay import spectral_decay as analysed
    from unseen.analyses.study_methods import read_study

    return analysed(read_study(folder, score, progress))


def spectra(folder: Path, progress: Progress, *, score: str = "recall@1") -> Analysis:
    """Singular values with and without rho-regularisation, of all images and by class: fig. 11 of Roth et al."""
    from unseen.analyses.spectra import paired_spectra
    from unseen.analyses.study_methods import REGULARISED, read_study

    return paired_spectra(read_study(folder, score, progress), REGULARISED, "spectra")


def p_switch(folder: Path, progress: Progress, *, score: str = "recall@1") -> Analysis:
    """A score and spectral decay over the share of switched triplets: fig. 8 of Roth et al."""
    from unseen.analyses.p_switch import p_switch_sweep
    from unseen.analyses.study_methods import read_study

    return p_switch_sweep(read_study(folder, score, progress))


def mixup(folder: Path, progress: Progress, *, score: str = "recall@1") -> Analysis:
    """Singular values, spectral decay and a score with and without manifold mixup: fig. 13 of Roth et al."""
    from unseen.analyses.spectra import paired_spectra
    from unseen.analyses.study_methods import MIXED, read_study

    return paired_spectra(read_study(folder, score, progress), MIXED, "mixup")


def generalisation(folder: Path, progress: Progress, *, score: str = "recall@1", distance: str = "class") -> Analysis:
    """A score over the rungs of a ladder, its aggregate, and how ranks change: fig. 3 of Milbich et al."""
    from unseen.analyses.generalisation import LEVELS
    from unseen.analyses.shift_figures import generalisation as analysed
    from unseen.studies.results.load import load_content

    check_choice("analyse generalisation", "distance", distance, tuple(LEVELS))
    return analysed(load_content(folder), score, distance)


def structure(folder: Path, progress: Progress, *, score: str = "recall@1") -> Analysis:
    """Scores of structure against a retrieval score over rungs and methods: figs. 6 and 7 of Milbich et al."""
    from unseen.analyses.shift_figures import structure_against_shift
    from unseen.studies.results.load import load_content

    return structure_against_shift(load_content(folder), score)


def few_shot(
    folder: Path,
    progress: Progress,
    *,
    score: str = "recall@1",
    shots: Sequence[int] = SHOTS,
    episodes: int = EPISODES,
    methods: Sequence[str] = (),
    splits: Sequence[str] = (),
    seeds: Sequence[int] = (),
    workers: int = 2,
    cache: Path | None = None,
) -> Analysis:
    """What a few images of each test class are worth, for a study over rungs of a ladder (Milbich et al.)."""
    from unseen.analyses.few_shot import few_shot_gains, read_adapted

    for count in shots:
        check_choice("few-shot", "shots", count, SHOTS)
    check_choice("few-shot", "episodes", episodes, range(1, EPISODES + 1))
    check_count("few-shot", "workers", workers)
    chosen = {"method": methods, "split": splits, "seed": seeds}
    return few_shot_gains(
        read_adapted(
            folder, shots=shots, episodes=episodes, chosen=chosen, workers=workers, cache=cache, progress=progress
        ),
        score,
    )


def ladder(folder: Path, progress: Progress) -> Analysis:
    """The Frechet distance of every step of the ladder that a study climbs."""
    from unseen.analyses.ladder_pictures import distance_figure

    climbed, _ = _climbed(folder)
    chosen = {rung.step: number for number, rung in enumerate(climbed.rungs, start=1)}
    rows = [[step.name, chosen.get(step.name, ""), *list(vars(step).values())[1:]] for step in climbed.steps]
    return Analysis(
        name="ladder",
        draw=lambda: distance_figure(climbed),
        columns=("step", "rung", "training classes", "test classes", "distance of class means", "distance of samples"),
        rows=[["" if value is None else value for value in row] for row in rows],
        shown=(),
    )


def map_by_tsne(folder: Path, progress: Progress, *, cache: Path | None = None) -> Analysis:
    """A map of an easy, a middle and a hard rung of the ladder that a study climbs, by t-SNE."""
    return _map(folder, "tsne", cache)


def map_by_umap(folder: Path, progress: Progress, *, cache: Path | None = None) -> Analysis:
    """A map of an easy, a middle and a hard rung of the ladder that a study climbs, by UMAP."""
    return _map(folder, "umap", cache)


def _map(folder: Path, projection: str, cache: Path | None) -> Analysis:
    from unseen.analyses.ladder_pictures import ladder_map, shown_rungs
    from unseen.runs.frozen_features import pooled_features

    climbed, data = _climbed(folder)
    if climbed.features["made_by"] is None:
        raise DataError(
            "the ladder does not say what made its features", hint="Use one that `unseen splits build` wrote."
        )
    pooled = pooled_features({"data": data, **climbed.features["made_by"]}, cache=cache)
    numbers = shown_rungs(climbed)
    rungs = [climbed.rungs[number - 1] for number in numbers]
    return Analysis(
        name=f"map-{projection}",
        draw=lambda: ladder_map(climbed, pooled.catalogue, pooled.features, projection),
        columns=("rung", "step", "training classes", "test classes", "distance of class means"),
        rows=[
            [number, rung.step, len(rung.train) + len(rung.validation), len(rung.test), rung.class_distance]
            for number, rung in zip(numbers, rungs, strict=True)
        ],
        shown=(),
    )


def _climbed(folder: Path) -> tuple[Ladder, Record]:
    """The ladder that a study climbs, and its data as the study reads it."""
    with Store(store_of(folder)) as store:
        configs = [state.cell.config for state in store.cells() if state.cell.config["split"]["name"] == "ladder"]
    if not configs:
        raise DataError(f"no cell of {folder} is on a rung of a ladder", hint="Use splits such as ladder=FILE:rung=1.")
    return read_ladder(Path(configs[0]["split"]["path"]).expanduser()), configs[0]["data"]


ANALYSES: dict[str, Callable[..., Analysis]] = {
    "spectral-decay": spectral_decay,
    "spectra": spectra,
    "p-switch": p_switch,
    "mixup": mixup,
    "generalisation": generalisation,
    "structure": structure,
    "few-shot": few_shot,
    "ladder": ladder,
    "map-tsne": map_by_tsne,
    "map-umap": map_by_umap,
}


def settings_of(name: str) -> list[str]:
    """What an analysis can be told; `cache` is where the command keeps cached features, no setting of a plan."""
    taken_by = inspect.signature(ANALYSES[name]).parameters.values()
    return [each.name for each in taken_by if each.kind == each.KEYWORD_ONLY]


def check_analyses(asked: Mapping[str, Record]) -> None:
    """Refuse, before a study begins, an analysis that does not exist or has no such setting.

    Raises:     ConfigError
    """
    for name, settings in asked.items():
        if name not in ANALYSES:
            known = list(ANALYSES)
            raise ConfigError(f"unknown analysis '{name}'{nearest(name, known)} (there are: {', '.join(known)})")
        taken = [key for key in settings_of(name) if key != "cache"]
        for key in settings:
            if key not in taken:
                raise ConfigError(
                    f"analysis '{name}' has no setting '{key}'{nearest(str(key), taken)} (it has: {', '.join(taken)})"
                )
