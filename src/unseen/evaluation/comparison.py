"""Paired comparison of two models on one test set: differences of scores with bootstrap intervals."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from rich.table import Table

from unseen.core.console import table
from unseen.core.errors import ConfigError
from unseen.evaluation.intervals import Draws
from unseen.evaluation.score_table import Scores


class Difference(NamedTuple):
    """A score of the second model minus that of the first, its interval, and how often bootstrap draws contradict it.

    `against` is twice the share of draws in which the difference has the opposite sign or is 0: small if the sign of
    the difference hardly depends on which classes the test set happens to hold.
    """

    first: float
    second: float
    value: float
    low: float
    high: float
    against: float


@dataclass(frozen=True)
class Comparison(Mapping[str, Difference]):
    """A read-only mapping from the name of a score to the difference of two models in it."""

    differences: Mapping[str, Difference]
    confidence: float

    def __getitem__(self, name: str) -> Difference:
        return self.differences[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.differences)

    def __len__(self) -> int:
        return len(self.differences)

    def table(self) -> Table:
        """The differences as a table for the terminal."""
        rows = [
            [name, f"{score.first:.4f}", f"{score.second:.4f}", f"{score.value:+.4f}",
             f"{score.low:+.4f} to {score.high:+.4f}", f"{score.against:.3f}"]
            for name, score in self.items()
        ]  # fmt: skip
        interval = f"{self.confidence:.0%} interval"
        return table("comparison", ["score", "first", "second", "difference", interval, "against"], rows)


def compare(first: Scores, second: Scores) -> Comparison:
    """Paired differences of two evaluations of the same queries, classes and gallery.

    Both evaluations drew the same classes in each draw, so what makes a draw easy or hard for both cancels.

    Raises: ConfigError if the two cannot be compared
    """
    one, two = _matching_draws("compare", first, second)
    differences = {}
    for name in one.replicates:
        value = second[name] - first[name]
        draws = two.replicates[name] - one.replicates[name]
        low, high = one.bootstrap.interval(value, draws, (-np.inf, np.inf))
        # If the difference is 0, every draw contradicts it.
        against = float((np.sign(draws - draws.mean() + value) * np.sign(value) <= 0).mean())
        differences[name] = Difference(first[name], second[name], value, low, high, min(1.0, 2 * against))
    return Comparison(differences, one.bootstrap.confidence)


def average(runs: Sequence[Scores]) -> Scores:
    """Average the scores of several runs on one test set: their values and, draw by draw, their replicates.

    All runs drew the same classes, so that the mean of their replicates is a replicate of the mean: `compare` of two
    averages has the mean difference, and an interval that covers the choice of classes, not of runs. The order of the
    runs does not matter.

    Empty:   a single run is its own average; scores missing in any run are left out
    Raises:  ConfigError if the runs cannot be compared
    """
    assert runs, "there must be a run to average"
    first = runs[0]
    run_draws = [_matching_draws("average", first, run)[1] for run in runs]
    names = [name for name in first if all(name in draws.replicates for draws in run_draws)]
    # Sorted before they are added, as the last digit of a sum depends on the order.
    replicates = {name: np.sort([draws.replicates[name] for draws in run_draws], axis=0).mean(axis=0) for name in names}
    return Scores(
        numbers={name: math.fsum(run[name] for run in runs) / len(runs) for name in names},
        definitions={name: first.definitions[name] for name in names},
        queries=first.queries,
        gallery=first.gallery,
        classes=first.classes,
        queries_without_positives=first.queries_without_positives,
        draws=Draws(replicates, run_draws[0].bootstrap, run_draws[0].test_set),
    )


def _matching_draws(who: str, first: Scores, second: Scores) -> tuple[Draws, Draws]:
    """The draws of two evaluations, restricted to the scores of both; refuses evaluations that differ in set-up."""
    one, two = first.draws, second.draws
    if one is None or two is None:
        raise ConfigError(f"{who}: scores without draws cannot be compared", hint="Call evaluate with a bootstrap.")
    if (one.test_set, one.bootstrap) != (two.test_set, two.bootstrap):
        raise ConfigError(
            f"{who}: the two evaluations do not share test set and bootstrap",
            got=f"{first.queries} and {second.queries} queries of {first.classes} and {second.classes} classes",
            hint="Use the same labels, queries, gallery and bootstrap settings for both.",
        )
    names = [name for name in first if name in one.replicates and name in two.replicates]
    for name in names:
        if first.definitions[name] != second.definitions[name]:
            raise ConfigError(
                f"{who}: '{name}' is not defined alike in the two", hint="Use the same settings for both."
            )
    one, two = (replace(draws, replicates={name: draws.replicates[name] for name in names}) for draws in (one, two))
    return one, two
