"""Few-shot scores of finished runs on their rungs of a ladder, computed once and kept in their folders."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.core.files import read_json, sha256_of, write_json
from unseen.core.paths import cache_folder
from unseen.core.processes import in_processes
from unseen.runs.depths import items_at_depth, part_at_depth
from unseen.runs.run_recipe import load_run, model_of
from unseen.shifts.episodes import EPISODES, SHOTS
from unseen.shifts.few_shot import Adaptation, Estimate, FewShotResult, FewShotSettings, Gain, few_shot_on_rung
from unseen.shifts.ladder import read_ladder

FILE = "few_shot.json"
_FORMAT = 1


def few_shot_of_runs(
    folders: Sequence[Path],
    *,
    shots: Sequence[int] = SHOTS,
    episodes: int = EPISODES,
    how: Adaptation | None = None,
    cache: Path | None = None,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[list[FewShotResult]]:
    """What adaptation gains for finished runs, for each number of shots, zero-shot and few-shot on the same queries.

    Kept beside the weights, and computed anew if those or the settings are others. Numbers of shots that the test
    classes are too small for are left out. Each number of shots of a run is a piece of work of its own, for processes
    to share and to be kept as soon as it is done.

    Raises:     DataError for a folder without a finished run, or a run whose split is no rung of a ladder
    """
    how = how or Adaptation()
    kept = [_Kept(folder, episodes, how) for folder in folders]
    # The longest first, so that processes end at about the same time.
    work = [(each, count) for count in sorted(shots, reverse=True) for each in kept if str(count) not in each.found]
    compute = partial(_computed, episodes=episodes, how=how, cache=cache_folder() if cache is None else cache)
    pieces = [(each.folder, count) for each, count in work]
    for done, (place, found) in enumerate(in_processes(compute, pieces, workers), start=1):
        each, count = work[place]
        each.keep(count, found)
        progress(done, len(work))
    return [[_read(each.found[str(count)]) for count in shots if each.found[str(count)] is not None] for each in kept]


class _Kept:
    """What is known of a run: its file, read if it was made of the same weights and settings."""

    def __init__(self, folder: Path, episodes: int, how: Adaptation) -> None:
        weights = folder / "model.safetensors"
        if not weights.is_file():
            raise DataError(
                f"{folder} holds no trained weights", hint="Use the folder of a study whose cells are kept."
            )
        settings = asdict(how) | {"iterations": {str(count): steps for count, steps in how.iterations.items()}}
        self.folder = folder
        self._made_of: Record = {
            "format": _FORMAT,
            "weights": sha256_of(weights),
            "episodes": episodes,
            "how": settings,
        }
        held = read_json(folder / FILE) if (folder / FILE).is_file() else {}
        self.found: Record = held["found"] if held.get("made_of") == self._made_of else {}

    def keep(self, shots: int, found: Record | None) -> None:
        """Write what was found beside what was known; None where classes are too small for so many shots."""
        self.found = self.found | {str(shots): found}
        write_json(self.folder / FILE, {"made_of": self._made_of, "found": self.found})


def _computed(job: tuple[Path, int], *, episodes: int, how: Adaptation, cache: Path) -> Record | None:
    """The gain of a run for a number of shots; None where the test classes are too small for them."""
    folder, shots = job
    prepared, items, model = load_run(folder)
    recipe, split = prepared.recipe, prepared.split
    if recipe.split["name"] != "ladder":
        raise DataError(
            f"{folder}: few-shot episodes belong to a ladder", got=recipe.split["name"], hint="Use split ladder."
        )
    ladder = read_ladder(Path(recipe.split["path"]).expanduser())
    # What lies below the trained part is as it was before training: its cached outputs serve all runs of a study.
    before = model_of(recipe, items)
    seen = items_at_depth(prepared, part_at_depth(recipe, before, items), items, cache=cache, workers=0)
    trained = part_at_depth(recipe, model, items).trained
    try:
        settings = FewShotSettings(shots=shots, episodes=episodes, adaptation=how, seed=recipe.seed)
        gained = few_shot_on_rung(trained, seen, split, ladder, settings)
    except DataError:
        return None
    return asdict(gained)


def _read(content: Record) -> FewShotResult:
    def gain_of(spans: Record) -> Gain:
        zero, few = (Estimate(**spans[key]) for key in ("zero_shot", "few_shot"))
        return Gain(zero, few, None if spans["share"] is None else Estimate(**spans["share"]))

    return FewShotResult(**{**content, "gains": {name: gain_of(spans) for name, spans in content["gains"].items()}})
