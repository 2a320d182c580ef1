"""The ladders of a finished study: its results over rungs, and the ladder file that its splits come from."""

from pathlib import Path

from unseen.analyses.base import AnalysisInputs
from unseen.analyses.shift.ladder_results import LadderResult, ladder_results
from unseen.core.config import Record
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest
from unseen.shifts import Ladder, read_ladder
from unseen.studies.results.content import Content
from unseen.studies.results.ranking import score_names


def results_with_score(content: Content, score: str) -> tuple[LadderResult, ...]:
    """The results of a study over its ladders.

    Raises:     DataError for a study without a ladder; ConfigError for a score that it does not have
    """
    scores = list(score_names(content))
    if score not in scores:
        raise ConfigError(f"the study has no score '{score}'{nearest(score, scores)} (it has: {', '.join(scores)})")
    results = ladder_results(content)
    if not results:
        raise DataError(
            "the study has no two rungs of a ladder", hint="Use a study such as `ladder-frozen` (unseen list studies)."
        )
    return results


def ladder_of_study(inputs: AnalysisInputs) -> tuple[Ladder, Record]:
    """The ladder whose rungs are splits of a study, and the record of its data.

    Raises:     DataError for a study without one
    """
    with inputs.open_store() as store:
        configs = [state.cell.config for state in store.cells() if state.cell.config["split"]["name"] == "ladder"]
    if not configs:
        raise DataError(
            f"no cell of {inputs.folder} is on a rung of a ladder", hint="Use splits such as ladder=FILE:rung=1."
        )
    return read_ladder(Path(configs[0]["split"]["path"]).expanduser()), configs[0]["data"]
