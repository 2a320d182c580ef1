"""Few-shot scores of a finished run on its rung of a ladder, computed once and kept in its folder."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.core.files import read_json, sha256_of, write_json
from unseen.data.cache import cache_folder
from unseen.shifts.episodes import EPISODES, SHOTS
from unseen.shifts.few_shot import Adaptation, Estimate, FewShot, Gain, few_shot_on_rung
from unseen.shifts.ladder import read_ladder
from unseen.studies.depths import items_at_depth, part_at_depth
from unseen.studies.running import load_run, model_of

FILE = "few_shot.json"
_FORMAT = 1


def run_few_shot(
    folder: Path,
    *,
    shots: Sequence[int] = SHOTS,
    episodes: int = EPISODES,
    how: Adaptation | None = None,
    cache: Path | None = None,
    workers: int = 0,
) -> list[FewShot]:
    """What adaptation gains for a finished run, for each number of shots, zero-shot and few-shot on the same queries.

    Kept beside the weights, and computed anew if those or the settings are others. Numbers of shots that the test
    classes are too small for are left out.

    Raises:     DataError for a folder without a finished run, or a run whose split is no rung of a ladder
    """
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise DataError(f"{folder} holds no trained weights", use="the folder of a study whose cells are kept")
    how = how or Adaptation()
    settings = asdict(how) | {"iterations": {str(count): steps for count, steps in how.iterations.items()}}
    made_of: Record = {"format": _FORMAT, "weights": sha256_of(weights), "episodes": episodes, "how": settings}
    held = read_json(folder / FILE) if (folder / FILE).is_file() else {}
    found: Record = held["found"] if held.get("made_of") == made_of else {}
    missing = [count for count in shots if str(count) not in found]
    if missing:
        found = found | _computed(folder, missing, episodes, how, cache_folder() if cache is None else cache, workers)
        write_json(folder / FILE, {"made_of": made_of, "found": found})
    return [_read(found[str(count)]) for count in shots if found[str(count)] is not None]


def _computed(folder: Path, shots: Sequence[int], episodes: int, how: Adaptation, cache: Path, workers: int) -> Record:
    prepared, items, model = load_run(folder)
    recipe, split = prepared.recipe, prepared.split
    if recipe.split["name"] != "ladder":
        raise DataError(f"{folder}: few-shot episodes belong to a ladder", got=recipe.split["name"], use="split ladder")
    ladder = read_ladder(Path(recipe.split["path"]).expanduser())
    # What lies below the trained part is as it was before training: its cached outputs serve all runs of a study.
    before = model_of(recipe, items)
    seen = items_at_depth(
        recipe, before, part_at_depth(recipe, before, items), items, split, cache=cache, workers=workers
    )
    trained = part_at_depth(recipe, model, items).trained
    found: Record = {}
    for count in shots:
        try:
            gained = few_shot_on_rung(
                trained, seen, split, ladder, shots=count, how=how, episodes=episodes, seed=recipe.seed, workers=workers
            )
        except DataError:
            found[str(count)] = None
        else:
            found[str(count)] = asdict(gained)
    return found


def _read(content: Record) -> FewShot:
    def gain_of(spans: Record) -> Gain:
        zero, few = (Estimate(**spans[key]) for key in ("zero_shot", "few_shot"))
        return Gain(zero, few, None if spans["share"] is None else Estimate(**spans["share"]))

    return FewShot(**{**content, "gains": {name: gain_of(spans) for name, spans in content["gains"].items()}})
