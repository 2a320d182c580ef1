"""Transfer between data sets: train on one, test on another, for all ordered pairs, with the untrained baseline."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unseen.analyses.base import Value, finite_or_none
from unseen.analyses.shift.ladder_results import split_facts
from unseen.studies.results.content import Content
from unseen.studies.results.ranking import MethodScores, Ranking, rankings, score_names


@dataclass(frozen=True, eq=False)
class Transfer:
    """The rankings of one joined data set and pretraining by (trained on, tested on)."""

    data: str
    why_apart: str
    trained_on: tuple[str, ...]
    tested_on: tuple[str, ...]
    tables: Mapping[tuple[str, str], Ranking]

    @property
    def methods(self) -> dict[str, bool]:
        """Every method, and whether it is trained: trained ones first, in order of first appearance."""
        methods = {entry.method: entry.is_trained for table in self.tables.values() for entry in table.entries}
        return dict(sorted(methods.items(), key=lambda item: not item[1]))

    def entry(self, method: str, train: str, test: str) -> MethodScores | None:
        """A method on a pair; None where it has no finished cell."""
        table = self.tables.get((train, test))
        return None if table is None else next((entry for entry in table.entries if entry.method == method), None)

    def mean(self, method: str, train: str, test: str, score: str) -> float:
        """The mean over seeds of a method on a pair; NaN where there is none."""
        entry = self.entry(method, train, test)
        return math.nan if entry is None else entry.summary(score).mean

    def baseline(self, test: str, score: str) -> float:
        """The best untrained method on a part; NaN where there is none."""
        methods = [method for method, is_trained in self.methods.items() if not is_trained]
        means = [self.mean(method, train, test, score) for method in methods for train in self.trained_on]
        finite = [mean for mean in means if math.isfinite(mean)]
        lower_is_better = any(score in table.lower_is_better for table in self.tables.values())
        return (min if lower_is_better else max)(finite, default=math.nan)


def transfers(content: Content) -> tuple[Transfer, ...]:
    """One for each joined data set with a finished pair, and for each pretraining of its backbones."""
    groups: dict[tuple[str, str], dict[tuple[str, str], Ranking]] = {}
    for table in rankings(content):
        pair = pair_of(table)
        if pair is not None:
            groups.setdefault((table.data, table.why_apart), {})[pair] = table
    return tuple(
        Transfer(
            data,
            why_apart,
            tuple(dict.fromkeys(train for train, _ in tables)),
            tuple(dict.fromkeys(test for _, test in tables)),
            tables,
        )
        for (data, why_apart), tables in groups.items()
    )


def pair_of(table: Ranking) -> tuple[str, str] | None:
    """What a table's methods were trained and tested on; None for a split within one data set."""
    facts = split_facts(table)
    return (str(facts["train_on"]), str(facts["test_on"])) if {"train_on", "test_on"} <= facts.keys() else None


COLUMNS = (
    "data", "trained on", "tested on", "score", "method", "trained", "mean", "standard deviation", "seeds",
    "interval low", "interval high", "over untrained",
)  # fmt: skip


def transfer_rows(content: Content) -> Iterator[list[Value]]:
    """A row for each pair, score and method; None for missing values."""
    for transfer in transfers(content):
        for (train, test), table in transfer.tables.items():
            for score in score_names(content):
                baseline = transfer.baseline(test, score)
                for entry in table.entries:
                    summary = entry.summary(score)
                    if summary.values:
                        yield [
                            *(transfer.data, train, test, score, entry.method, "yes" if entry.is_trained else "no"),
                            *(finite_or_none(summary.mean), finite_or_none(summary.deviation)),
                            *(len(summary.values), *(entry.interval(score) or (None, None))),
                            finite_or_none(summary.mean - baseline),
                        ]
