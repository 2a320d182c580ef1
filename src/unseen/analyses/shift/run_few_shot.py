"""Few-shot scores of finished runs on their rungs of a ladder, computed once and kept in their folders."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from unseen.analyses.run_files import RunFile, load_trained_part
from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.core.processes import in_processes
from unseen.core.progress import Progress, no_progress
from unseen.shifts.episodes import EPISODES, SHOTS
from unseen.shifts.few_shot import Adaptation, FewShotResult, FewShotSettings, few_shot_on_rung
from unseen.shifts.ladder import read_ladder

FILE = "few_shot.json"


@dataclass(frozen=True)
class FewShotGrid:
    """The numbers of shots to try, the number of episodes, and how a model adapts in an episode."""

    shots: Sequence[int] = SHOTS
    episodes: int = EPISODES
    adaptation: Adaptation = field(default_factory=Adaptation)


def few_shot_of_runs(
    folders: Sequence[Path],
    grid: FewShotGrid,
    *,
    cache: Path | None = None,
    workers: int = 1,
    progress: Progress = no_progress,
) -> list[list[FewShotResult]]:
    """Zero-shot and few-shot scores of finished runs on the same queries, for each number of shots.

    They are kept beside the weights, and computed again if those or the settings have changed. Numbers of shots that
    the test classes are too small for are left out. Each number of shots of a run is a job of its own, for processes to
    share, and is kept as soon as it is done.

    Raises:     DataError for a folder without a finished run, or a run whose split is no rung of a ladder
    """
    adaptation = asdict(grid.adaptation)
    adaptation["iterations"] = {str(shots): steps for shots, steps in grid.adaptation.iterations.items()}
    made_of: Record = {"episodes": grid.episodes, "how": adaptation}
    files = [RunFile(folder, FILE, made_of) for folder in folders]
    # The longest first, so that processes end at about the same time.
    missing = [
        (file, shots)
        for shots in sorted(grid.shots, reverse=True)
        for file in files
        if str(shots) not in _by_shots(file)
    ]
    compute = partial(_compute, grid=grid, cache=cache)
    jobs = [(file.folder, shots) for file, shots in missing]
    for done, (index, content) in enumerate(in_processes(compute, jobs, workers), start=1):
        file, shots = missing[index]
        file.write({"found": _by_shots(file) | {str(shots): content}})
        progress(done, len(missing), f"{shots} shots")
    read = TypeAdapter(FewShotResult).validate_python
    return [
        [read(content) for shots in grid.shots if (content := _by_shots(file)[str(shots)]) is not None]
        for file in files
    ]


def _by_shots(file: RunFile) -> Record:
    """The results of a run by its number of shots; None where its classes are too small for so many shots."""
    return file.content.get("found", {})


def _compute(job: tuple[Path, int], *, grid: FewShotGrid, cache: Path | None) -> Record | None:
    """The result of a run for a number of shots; None where the test classes are too small for them."""
    folder, shots = job
    part = load_trained_part(folder, cache=cache)
    if part.recipe.split["name"] != "ladder":
        raise DataError(
            f"{folder}: few-shot episodes belong to a ladder",
            got=part.recipe.split["name"],
            hint="Use runs whose split is a rung of a ladder.",
        )
    ladder = read_ladder(Path(part.recipe.split["path"]).expanduser())
    settings = FewShotSettings(shots=shots, episodes=grid.episodes, adaptation=grid.adaptation, seed=part.recipe.seed)
    try:
        result = few_shot_on_rung(part.model, part.inputs, part.split, ladder, settings)
    except DataError:
        return None
    return asdict(result)
