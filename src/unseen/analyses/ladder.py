"""Analysis `ladder`: the distances of the ladder whose rungs a study is run on."""

from unseen.analyses.base import AnalysisInputs, AnalysisResult, Value
from unseen.analyses.shift.ladder_figures import distance_figure
from unseen.analyses.shift.study_ladders import ladder_of_study
from unseen.core.registry import analysis


@analysis("ladder")
def ladder(inputs: AnalysisInputs, /) -> AnalysisResult:
    """The Frechet distance of every step of the ladder whose rungs a study is run on."""
    study_ladder, _ = ladder_of_study(inputs)
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
