"""Which steps of a ladder become its rungs: by number, by target distances, or by the names of the steps."""

from collections.abc import Sequence

import numpy as np

from unseen.core.errors import ConfigError
from unseen.core.registry import nearest
from unseen.shifts.steps import Step

RUNGS = 9


def rising_steps(steps: Sequence[Step]) -> list[Step]:
    """The steps whose distance of class means is a new extreme, seen from the start: their distances rise.

    Raises:  ConfigError when there is no start
    """
    start = _index_of(steps, "0")
    rising = [steps[start]]
    for step in steps[start + 1 :]:
        if step.distance > rising[-1].distance:
            rising.append(step)
    for step in reversed(steps[:start]):
        if step.distance < rising[0].distance:
            rising.insert(0, step)
    return rising


def choose_evenly(steps: Sequence[Step], count: int) -> list[Step]:
    """`count` rising steps, evenly spaced in the distance of class means, with the easiest, the start and the hardest.

    Where the start is nearer to the easiest than half a spacing, it replaces the easiest: classes split at random are
    about as near as they can be, and two such rungs would say the same.

    Raises:  ConfigError when fewer steps rise
    """
    rising = rising_steps(steps)
    if not 3 <= count <= len(rising):
        raise ConfigError(
            f"a ladder of {len(rising)} rising steps has from 3 to {len(rising)} rungs",
            got=count,
            hint="Use a number in that range, or more swaps and removals.",
        )
    start = _index_of(rising, "0")
    spacing = (rising[-1].distance - rising[0].distance) / (count - 1)
    if rising[start].distance - rising[0].distance < spacing / 2 and count <= len(rising) - start:
        rising = rising[start:]
    return evenly_spaced(rising, count, fixed=["0"])


def evenly_spaced(rising: Sequence[Step], count: int, *, fixed: Sequence[str]) -> list[Step]:
    """`count` of the rising steps, evenly spaced in distance, with the first, the last and those named in `fixed`."""
    values = np.array([step.distance for step in rising])
    required = {0, len(rising) - 1, *(index for index, step in enumerate(rising) if step.name in fixed)}
    # Targets in order, each takes the nearest step that leaves enough for those after it; then required ones go in.
    chosen: list[int] = []
    for number, target in enumerate(np.linspace(values[0], values[-1], count)):
        first = chosen[-1] + 1 if chosen else 0
        last = len(rising) - (count - number)
        chosen.append(first + int(np.abs(values[first : last + 1] - target).argmin()))
    for index in sorted(required - set(chosen)):
        replaceable = [position for position in range(count) if chosen[position] not in required]
        chosen[min(replaceable, key=lambda position: abs(chosen[position] - index))] = index
    return [rising[index] for index in sorted(chosen)]


def choose_by_distance(steps: Sequence[Step], targets: Sequence[float]) -> list[Step]:
    """The rising step nearest to each target distance of class means.

    Raises:  ConfigError for a target out of range, or two targets with the same nearest step
    """
    rising = rising_steps(steps)
    values = np.array([step.distance for step in rising])
    chosen = []
    for target in sorted(targets):
        if not values[0] * 0.999 <= target <= values[-1] * 1.001:
            raise ConfigError(
                f"the ladder reaches distances from {values[0]:.4g} to {values[-1]:.4g}",
                got=target,
                hint="Use distances in that range, or more swaps and removals.",
            )
        chosen.append(int(np.abs(values - target).argmin()))
    if len(set(chosen)) < len(chosen):
        raise ConfigError(
            "two target distances have the same nearest step", got=list(targets), hint="Use targets further apart."
        )
    return [rising[index] for index in chosen]


def choose_by_name(steps: Sequence[Step], names: Sequence[str]) -> list[Step]:
    """The steps of these names, in the order of their distance of class means.

    Raises:  ConfigError for an unknown name, or one that occurs twice
    """
    if len(set(names)) < len(names) or not names:
        raise ConfigError("steps must be different names", got=list(names), hint="Use names such as -20, 0, 6, R22.")
    return sorted((steps[_index_of(steps, name)] for name in names), key=lambda step: step.distance)


def _index_of(steps: Sequence[Step], name: str) -> int:
    known = [step.name for step in steps]
    if name not in known:
        shown = known if len(known) <= 8 else [*known[:3], "...", *known[-3:]]
        raise ConfigError(f"the ladder has no step '{name}'{nearest(name, known)} (it has: {', '.join(shown)})")
    return known.index(name)
