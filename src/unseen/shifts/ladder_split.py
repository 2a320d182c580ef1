"""The split `ladder`: a rung of a ladder file, for runs and studies."""

from dataclasses import replace
from pathlib import Path

from unseen.core.checks import check_count
from unseen.core.errors import DataError
from unseen.core.registry import split
from unseen.data.catalogue import Catalogue
from unseen.data.splits import Split, split_by_classes
from unseen.shifts.ladder import GROUPS, Ladder, item_ids_by_class, read_ladder


@split("ladder")
class ByLadder:
    """A rung of a ladder that `unseen splits build` wrote, of growing distance between training and test.

    ===========  ====================================================================================
    path         the ladder file
    rung         its number, from 1, the easiest
    validation   False also trains on the validation classes of the rung
    ===========  ====================================================================================

    Raises:  DataError for a file that was changed, and for data that the ladder was not built on
    """

    def __init__(self, path: str, *, rung: int, validation: bool = True) -> None:
        check_count("ByLadder", "rung", rung)
        self.path = path
        self.rung = rung
        self.validation = validation

    def __call__(self, catalogue: Catalogue) -> Split:
        """The split of this catalogue."""
        ladder = read_ladder(Path(self.path).expanduser())
        return split_of_rung(ladder, catalogue, self.rung, validation=self.validation)


def split_of_rung(ladder: Ladder, catalogue: Catalogue, number: int, *, validation: bool = True) -> Split:
    """The split of a catalogue at a rung of its ladder, from 1; its facts hold the distances.

    Raises:  DataError for a rung that the ladder does not have, and for data that it was not built on
    """
    if not 1 <= number <= len(ladder.rungs):
        raise DataError(f"the ladder has rungs 1 to {len(ladder.rungs)}", got=number)
    rung, items = ladder.rungs[number - 1], item_ids_by_class(catalogue)
    differs = sorted(name for name in ladder.classes | items if ladder.classes.get(name) != items.get(name))
    if differs:
        raise DataError(
            f"the ladder was built on other data than {catalogue.name}: {len(differs):,} classes differ,"
            f" the first is '{differs[0]}'",
            hint=f"Use the data it was built on ({ladder.data['name']}), or build it again with `unseen splits build`.",
        )
    label_of = {name: label for label, name in enumerate(catalogue.class_names)}
    train, held_out, test = ([label_of[name] for name in side] for side in (rung.train, rung.validation, rung.test))
    result = split_by_classes(
        catalogue,
        f"rung {number} of {len(ladder.rungs)}",
        train=train if validation else [*train, *held_out],
        validation=held_out if validation else (),
        test=test,
    )
    facts = {key: getattr(rung, key) for key in ("step", "class_distance", "sample_distance")}
    by = {"by": GROUPS} if ladder.is_by_groups else {}
    return replace(result, facts={"ladder": ladder.hash[:16], **facts, **by})
