"""Which steps of a ladder become its rungs: by number, by target distances, or by the names of the steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unseen.core.errors import ConfigError
from unseen.core.registry import nearest
from unseen.shifts.steps import Step, Walk

RUNGS = 9


@dataclass(frozen=True)
class Published:
    """How the paper walked a data set, and the names of the steps it chose (SPEC 5.2)."""

    walk: Walk
    steps: tuple[str, ...]


PUBLISHED = {
    "cub200": Published(Walk(swaps=2), ("-20", "-10", "0", "6", "10", "30", "R22", "R48", "R66")),
    "cars196": Published(Walk(swaps=2, easier=0), ("0", "6", "16", "20", "30", "R18", "R42", "R66")),
    "sop": Published(
        Walk(swaps=1000, easier=0, harder=19, removals=6),
        ("0", "1000", "2000", "3000", "4000", "5000", "R2000", "R6000"),
    ),
}


def rising(steps: Sequence[Step]) -> list[Step]:
    """The steps on which the distance of class means is a new extreme, seen from the start: their distances rise.

    Raises:  ConfigError when there is no start
    """
    start = _named(steps, "0")
    kept: list[Step] = [steps[start]]
    for step in steps[start + 1 :]:
        if step.distance > kept[-1].distance:
            kept.append(step)
    for step in reversed(steps[:start]):
        if step.distance < kept[0].distance:
            kept.insert(0, step)
    return kept


def choose_evenly(steps: Sequence[Step], count: int) -> list[Step]:
    """That many rising steps, evenly spaced in the distance of class means; the easiest, the start and the hardest are
    among them.

    Where the start is nearer to the easiest than half of that space it stands for it: classes split at random are about
    as near as they can be, and two such rungs would say the same.

    Raises:  ConfigError when fewer steps rise
    """
    found = rising(steps)
    if not 3 <= count <= len(found):
        raise ConfigError(
            f"a ladder of {len(found)} rising steps has from 3 to {len(found)} rungs",
            got=count,
            hint="Use a number between, or a longer walk.",
        )
    start = _named(found, "0")
    space = (found[-1].distance - found[0].distance) / (count - 1)
    if found[start].distance - found[0].distance < space / 2 and count <= len(found) - start:
        found = found[start:]
    return spaced(found, count, fixed=["0"])


def spaced(found: Sequence[Step], count: int, *, fixed: Sequence[str]) -> list[Step]:
    """That many of steps that rise, evenly spaced in distance; the first, the last and those of `fixed` among them."""
    values = np.array([step.distance for step in found])
    kept = {0, len(found) - 1, *(place for place, step in enumerate(found) if step.name in fixed)}
    # Targets in order, each takes the nearest step that leaves enough for those after it; then what is kept is put in.
    chosen: list[int] = []
    for number, target in enumerate(np.linspace(values[0], values[-1], count)):
        first = chosen[-1] + 1 if chosen else 0
        last = len(found) - (count - number)
        chosen.append(first + int(np.abs(values[first : last + 1] - target).argmin()))
    for place in sorted(kept - set(chosen)):
        inner = [position for position in range(count) if chosen[position] not in kept]
        chosen[min(inner, key=lambda position: abs(chosen[position] - place))] = place
    return [found[place] for place in sorted(chosen)]


def choose_by_distance(steps: Sequence[Step], targets: Sequence[float]) -> list[Step]:
    """The rising step nearest to each target distance of class means.

    Raises:  ConfigError for a target beyond the ladder or two targets that one step is nearest to
    """
    found = rising(steps)
    values = np.array([step.distance for step in found])
    chosen = []
    for target in sorted(targets):
        if not values[0] * 0.999 <= target <= values[-1] * 1.001:
            raise ConfigError(
                f"the ladder reaches distances from {values[0]:.4g} to {values[-1]:.4g}",
                got=target,
                hint="Use distances between, or a longer walk.",
            )
        chosen.append(int(np.abs(values - target).argmin()))
    if len(set(chosen)) < len(chosen):
        raise ConfigError(
            "two target distances are nearest to one step", got=list(targets), hint="Use targets further apart."
        )
    return [found[place] for place in chosen]


def choose_by_name(steps: Sequence[Step], names: Sequence[str]) -> list[Step]:
    """The steps of these names, in the order of their distance of class means.

    Raises:  ConfigError for a name that no step has, or that stands twice
    """
    if len(set(names)) < len(names) or not names:
        raise ConfigError("steps must be different names", got=list(names), hint="Use names such as -20, 0, 6, R22.")
    found = [steps[_named(steps, name)] for name in names]
    return sorted(found, key=lambda step: step.distance)


def _named(steps: Sequence[Step], name: str) -> int:
    known = [step.name for step in steps]
    if name not in known:
        shown = known if len(known) <= 8 else [*known[:3], "...", *known[-3:]]
        raise ConfigError(f"the ladder has no step '{name}'{nearest(name, known)} (it has: {', '.join(shown)})")
    return known.index(name)
