"""Few-shot scores of finished runs on their rungs of a ladder, computed once and kept in their folders."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.core.files import read_json, sha256_of, write_json
from unseen.core.paths import cache_folder
from unseen.core.processes import in_processes
from unseen.core.progress import Progress, no_progress
from unseen.runs.depths import items_at_depth, part_at_depth
from unseen.runs.run_recipe import load_run, model_of
from unseen.shifts.episodes import EPISODES, SHOTS
from unseen.shifts.few_shot import Adaptation, Estimate, FewShot, Gain, few_shot_on_rung
from unseen.shifts.ladder import read_ladder

FILE = "few_shot.json"
_FORMAT = 1


@dataclass(frozen=True)
class FewShotSettings:
    """The numbers of shots to try, the number of episodes, and how a model adapts in an episode."""

    shots: Sequence[int] = SHOTS
    episodes: int = EPISODES
    adaptation: Adaptation = field(default_factory=Adaptation)


def few_shot_of_runs(
    folders: Sequence[Path],
    settings: FewShotSettings,
    *,
    cache: Path | None = None,
    workers: int = 1,
    progress: Progress = no_progress,
) -> list[list[FewShot]]:
    """Zero-shot and few-shot scores of finished runs on the same queries, for each number of shots.

    They are kept beside the weights, and computed again if those or the settings have changed. Numbers of shots that
    the test classes are too small for are left out. Each number of shots of a run is a job of its own, for processes to
    share, and is kept as soon as it is done.

    Raises:     DataError for a folder without a finished run, or a run whose split is no rung of a ladder
    """
    results = [_RunResults(folder, settings) for folder in folders]
    # The longest first, so that processes end at about the same time.
    missing = [
        (run, shots)
        for shots in sorted(settings.shots, reverse=True)
        for run in results
        if str(shots) not in run.by_shots
    ]
    compute = partial(_compute, settings=settings, cache=cache_folder() if cache is None else cache)
    jobs = [(run.folder, shots) for run, shots in missing]
    for done, (index, content) in enumerate(in_processes(compute, jobs, workers), start=1):
        run, shots = missing[index]
        run.keep(shots, content)
        progress(done, len(missing), f"{shots} shots")
    return [
        [_read(content) for shots in settings.shots if (content := run.by_shots[str(shots)]) is not None]
        for run in results
    ]


class _RunResults:
    """The results of a run by its number of shots, read from its file if that has the same weights and settings."""

    def __init__(self, folder: Path, settings: FewShotSettings) -> None:
        weights = folder / "model.safetensors"
        if not weights.is_file():
            raise DataError(
                f"{folder} holds no trained weights", hint="Use the folder of a study whose cells were not deleted."
            )
        adaptation = asdict(settings.adaptation)
        adaptation["iterations"] = {str(shots): steps for shots, steps in settings.adaptation.iterations.items()}
        self.folder = folder
        self._made_of: Record = {
            "format": _FORMAT,
            "weights": sha256_of(weights),
            "episodes": settings.episodes,
            "how": adaptation,
        }
        stored = read_json(folder / FILE) if (folder / FILE).is_file() else {}
        self.by_shots: Record = stored["found"] if stored.get("made_of") == self._made_of else {}

    def keep(self, shots: int, content: Record | None) -> None:
        """Add a result to the file; None where classes are too small for so many shots."""
        self.by_shots = self.by_shots | {str(shots): content}
        write_json(self.folder / FILE, {"made_of": self._made_of, "found": self.by_shots})


def _compute(job: tuple[Path, int], *, settings: FewShotSettings, cache: Path) -> Record | None:
    """The gain of a run for a number of shots; None where the test classes are too small for them."""
    folder, shots = job
    prepared, items, model = load_run(folder)
    recipe, split = prepared.recipe, prepared.split
    if recipe.split["name"] != "ladder":
        raise DataError(
            f"{folder}: few-shot episodes belong to a ladder",
            got=recipe.split["name"],
            hint="Use runs whose split is a rung of a ladder.",
        )
    ladder = read_ladder(Path(recipe.split["path"]).expanduser())
    # Layers below the trained part are as before training: their cached outputs serve all runs of a study.
    initial = model_of(recipe, items)
    inputs = items_at_depth(
        recipe, initial, part_at_depth(recipe, initial, items), items, split, cache=cache, workers=0
    )
    trained = part_at_depth(recipe, model, items).trained
    try:
        gained = few_shot_on_rung(
            trained,
            inputs,
            split,
            ladder,
            shots=shots,
            how=settings.adaptation,
            episodes=settings.episodes,
            seed=recipe.seed,
        )
    except DataError:
        return None
    return asdict(gained)


def _read(content: Record) -> FewShot:
    def gain(estimates: Record) -> Gain:
        zero_shot, few_shot = (Estimate(**estimates[key]) for key in ("zero_shot", "few_shot"))
        return Gain(zero_shot, few_shot, None if estimates["share"] is None else Estimate(**estimates["share"]))

    return FewShot(**{**content, "gains": {name: gain(estimates) for name, estimates in content["gains"].items()}})
