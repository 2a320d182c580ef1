"""Analyses `ladder`, `map-tsne` and `map-umap`: the ladder that a study is run on, as distances and as maps."""

from pathlib import Path

from unseen.analyses.base import AnalysisInputs, AnalysisResult, Value
from unseen.analyses.shift.ladder_figures import distance_figure, ladder_map, shown_rungs
from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.core.registry import analysis
from unseen.runs.frozen_features import pooled_features
from unseen.shifts import Ladder, read_ladder


@analysis("ladder")
def ladder(inputs: AnalysisInputs, /) -> AnalysisResult:
    """The Frechet distance of every step of the ladder whose rungs a study is run on."""
    study_ladder, _ = _ladder_of_study(inputs)
    rung_numbers = {rung.step: number for number, rung in enumerate(study_ladder.rungs, start=1)}
    rows: list[list[Value]] = [
        [step.name, rung_numbers.get(step.name), step.train, step.test, step.class_distance, step.sample_distance]
        for step in study_ladder.steps
    ]
    return AnalysisResult(
        draw=lambda: distance_figure(study_ladder),
        columns=("step", "rung", "training classes", "test classes", "distance of class means", "distance of samples"),
        rows=rows,
    )


@analysis("map-tsne")
def map_tsne(inputs: AnalysisInputs, /) -> AnalysisResult:
    """A t-SNE map of an easy, a middle and a hard rung of a study's ladder."""
    return _map(inputs, "tsne")


@analysis("map-umap")
def map_umap(inputs: AnalysisInputs, /) -> AnalysisResult:
    """A UMAP map of an easy, a middle and a hard rung of a study's ladder."""
    return _map(inputs, "umap")


def _map(inputs: AnalysisInputs, projection: str) -> AnalysisResult:
    ladder, data = _ladder_of_study(inputs)
    if ladder.features["made_by"] is None:
        raise DataError(
            "the ladder does not say what made its features", hint="Use a ladder that `unseen splits build` wrote."
        )
    pooled = pooled_features({"data": data, **ladder.features["made_by"]}, cache=inputs.cache)
    rows: list[list[Value]] = []
    for number in shown_rungs(ladder):
        rung = ladder.rungs[number - 1]
        classes = (len(rung.train) + len(rung.validation), len(rung.test))
        rows.append([number, rung.step, *classes, rung.class_distance])
    return AnalysisResult(
        draw=lambda: ladder_map(ladder, pooled.catalogue, pooled.features, projection),
        columns=("rung", "step", "training classes", "test classes", "distance of class means"),
        rows=rows,
    )


def _ladder_of_study(inputs: AnalysisInputs) -> tuple[Ladder, Record]:
    """The ladder whose rungs are splits of a study, and the record of its data."""
    with inputs.open_store() as store:
        configs = [state.cell.config for state in store.cells() if state.cell.config["split"]["name"] == "ladder"]
    if not configs:
        raise DataError(
            f"no cell of {inputs.folder} is on a rung of a ladder", hint="Use splits such as ladder=FILE:rung=1."
        )
    return read_ladder(Path(configs[0]["split"]["path"]).expanduser()), configs[0]["data"]
