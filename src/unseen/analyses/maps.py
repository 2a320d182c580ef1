"""Analyses `map-tsne` and `map-umap`: maps of an easy, a middle and a hard rung of a study's ladder."""

from unseen.analyses.base import AnalysisInputs, AnalysisResult, Value
from unseen.analyses.shift.ladder_figures import ladder_map, shown_rungs
from unseen.analyses.shift.study_ladders import ladder_of_study
from unseen.core.errors import DataError
from unseen.core.registry import analysis
from unseen.runs.frozen_features import pooled_features


@analysis("map-tsne")
def map_tsne(inputs: AnalysisInputs, /) -> AnalysisResult:
    """A t-SNE map of an easy, a middle and a hard rung of a study's ladder."""
    return _map(inputs, "tsne")


@analysis("map-umap")
def map_umap(inputs: AnalysisInputs, /) -> AnalysisResult:
    """A UMAP map of an easy, a middle and a hard rung of a study's ladder."""
    return _map(inputs, "umap")


def _map(inputs: AnalysisInputs, projection: str) -> AnalysisResult:
    ladder, data = ladder_of_study(inputs)
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
