"""What the methods of a study score over the rungs of a ladder, and their aggregated scores and ranks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from unseen.analyses.base import Value, finite_or_none
from unseen.core.config import Record
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest
from unseen.shifts import aggregated_score, rank_changes, ranks, relative_to_mean
from unseen.shifts.ladder import GROUPS
from unseen.studies.results.content import Content
from unseen.studies.results.ranking import Difference, MethodScores, Ranking, Summary, score_names, unseparated_rankings

LEVELS = {"class": "class_distance", "sample": "sample_distance"}


@dataclass(frozen=True)
class MeasuredRung:
    """A rung as its rows describe it: the label of its split, its number and step on the ladder, its distances.

    `group` is the group of the test classes where the steps of the ladder are groups, else "".
    """

    split: str
    number: int
    step: str
    class_distance: float
    sample_distance: float
    group: str = ""


@dataclass(frozen=True, eq=False)
class MethodCurve:
    """A method over the rungs of a ladder, or over other splits; None where it has no finished cell."""

    method: str
    is_trained: bool
    entries: tuple[MethodScores | None, ...]

    def summaries(self, score: str) -> list[Summary]:
        """A score over the seeds on each rung; without values where there is no finished cell."""
        return [Summary(()) if entry is None else entry.summary(score) for entry in self.entries]

    def means(self, score: str) -> list[float]:
        """The mean over seeds on each rung; NaN where there is none."""
        return [summary.mean for summary in self.summaries(score)]

    def intervals(self, score: str) -> list[tuple[float, float] | None]:
        """The class-bootstrap interval of the mean on each rung."""
        return [None if entry is None else entry.interval(score) for entry in self.entries]

    def is_complete(self, score: str) -> bool:
        """Whether there is a finite score on every rung."""
        return all(map(math.isfinite, self.means(score)))

    def aggregated(self, score: str, distances: Sequence[float]) -> Summary:
        """The aggregated generalisation score of each seed that has a finite score on every rung."""
        by_seed = [
            {} if entry is None else {row.seed: row.scores[score] for row in entry.rows if score in row.scores}
            for entry in self.entries
        ]
        shared = [seed for seed in by_seed[0] if all(math.isfinite(rung.get(seed, math.nan)) for rung in by_seed)]
        return Summary(tuple(float(aggregated_score(distances, [rung[seed] for rung in by_seed])) for seed in shared))

    def aggregated_interval(self, score: str, distances: Sequence[float]) -> tuple[float, float] | None:
        """The aggregates of the lower and of the upper ends: the widest case, all rungs erring the same way."""
        intervals = [interval for interval in self.intervals(score) if interval is not None]
        if len(intervals) < len(self.entries):
            return None
        low, high = (float(aggregated_score(distances, ends)) for ends in zip(*intervals, strict=True))
        return low, high


def method_curves(tables: Sequence[Ranking]) -> list[MethodCurve]:
    """Every method over these rankings, in order of first appearance."""
    by_key = [{(entry.method, entry.is_trained): entry for entry in table.entries} for table in tables]
    keys = dict.fromkeys(key for entries in by_key for key in entries)
    return [MethodCurve(*key, tuple(entries.get(key) for entries in by_key)) for key in keys]


@dataclass(frozen=True, eq=False)
class RankHistory:
    """The rank of a method on each rung, its change from rung to rung, and its relative gap to the mean method."""

    ranks: tuple[float, ...]
    changes: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class LadderResult:
    """The methods of one data set over the rungs of one ladder, the nearest rung first.

    Trained methods come first, each part by its aggregate of the main score; `differences` are the protocol fields in
    which methods differ that should be the same in one comparison.
    """

    data: str
    ladder: str
    rungs: tuple[MeasuredRung, ...]
    curves: tuple[MethodCurve, ...]
    main_score: str
    lower_is_better: frozenset[str]
    differences: tuple[Difference, ...]

    @property
    def is_by_groups(self) -> bool:
        """Whether the rungs are groups of classes and can be called by their names."""
        return all(rung.group for rung in self.rungs)

    def distances(self, level: str = "class") -> list[float]:
        """The distance of training and test on each rung, of class means or of samples."""
        return [getattr(rung, LEVELS[level]) for rung in self.rungs]

    @cached_property
    def scores(self) -> tuple[str, ...]:
        """Every score of any row, in their order."""
        entries = (entry for curve in self.curves for entry in curve.entries if entry)
        return tuple(dict.fromkeys(name for entry in entries for row in entry.rows for name in row.scores))

    def rank_histories(self, score: str) -> dict[int, RankHistory]:
        """The ranks of each method by its position in `curves`; empty where protocols differ.

        Methods without a score on every rung are left out: ranks among other methods on each rung mean nothing.
        """
        complete = {
            str(index): curve.means(score) for index, curve in enumerate(self.curves) if curve.is_complete(score)
        }
        if self.differences or len(complete) < 2:
            return {}
        higher_is_better = score not in self.lower_is_better
        tables = (
            ranks(complete, higher_is_better=higher_is_better),
            rank_changes(complete, higher_is_better=higher_is_better),
            relative_to_mean(complete),
        )
        return {int(key): RankHistory(*(tuple(map(float, table[key])) for table in tables)) for key in complete}


def ladder_results(content: Content) -> tuple[LadderResult, ...]:
    """One for each data set and ladder of which two rungs or more, at different distances, have a finished cell."""
    groups: dict[tuple[str, str], list[tuple[MeasuredRung, Ranking]]] = {}
    for table in unseparated_rankings(content):
        rung = rung_of(table)
        if rung is not None:
            groups.setdefault((table.data, str(split_facts(table)["ladder"])), []).append((rung, table))
    results = (_ladder_result(data, ladder, measured) for (data, ladder), measured in groups.items())
    return tuple(result for result in results if result is not None)


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


def rung_of(table: Ranking) -> MeasuredRung | None:
    """The rung that a table was measured on; None for a split that is no rung of a ladder."""
    facts = split_facts(table)
    of_classes, of_samples = facts.get("class_distance"), facts.get("sample_distance")
    if not {"ladder", "rung"} <= facts.keys():
        return None
    if not isinstance(of_classes, (int, float)) or not isinstance(of_samples, (int, float)):
        return None
    step = str(facts.get("step", ""))
    group = step if facts.get("by") == GROUPS else ""
    return MeasuredRung(table.split, int(facts["rung"]), step, float(of_classes), float(of_samples), group)


def split_facts(table: Ranking) -> Record:
    """The protocol's record of the split that a table was measured on; empty where there is none."""
    facts = table.entries[0].rows[0].protocol.get("split")
    return dict(facts) if isinstance(facts, Mapping) else {}


def _ladder_result(data: str, ladder: str, measured: Sequence[tuple[MeasuredRung, Ranking]]) -> LadderResult | None:
    measured = sorted(measured, key=lambda pair: pair[0].class_distance)
    rungs = tuple(rung for rung, _ in measured)
    distances = [rung.class_distance for rung in rungs]
    if len(set(distances)) < max(2, len(rungs)):
        return None
    tables = [table for _, table in measured]
    main, lower_is_better = tables[0].main_score, tables[0].lower_is_better
    sign = 1 if main in lower_is_better else -1

    def order(curve: MethodCurve) -> tuple[bool, float, str]:
        mean = curve.aggregated(main, distances).mean
        return (not curve.is_trained, math.inf if math.isnan(mean) else sign * mean, curve.method)

    differences = {difference.path: difference for table in tables for difference in table.differences}
    return LadderResult(
        data=data,
        ladder=ladder,
        rungs=rungs,
        curves=tuple(sorted(method_curves(tables), key=order)),
        main_score=main,
        lower_is_better=lower_is_better,
        differences=tuple(differences.values()),
    )


RUNG_COLUMNS = (
    "data", "ladder", "score", "method", "trained", "rung", "step", "distance of class means", "distance of samples",
    "mean", "standard deviation", "seeds", "interval low", "interval high", "rank", "rank change", "relative to mean",
)  # fmt: skip
AGGREGATED_COLUMNS = (
    "data", "ladder", "score", "method", "trained", "rungs", "aggregated", "standard deviation", "seeds",
    "interval low", "interval high",
)  # fmt: skip


def rung_rows(ladder: LadderResult, scores: Sequence[str]) -> Iterator[list[Value]]:
    """A row for each score, method and rung; None for missing values."""
    for score in scores:
        histories = ladder.rank_histories(score)
        for index, curve in enumerate(ladder.curves):
            history = histories.get(index)
            by_rung = zip(ladder.rungs, curve.summaries(score), curve.intervals(score), strict=True)
            for position, (rung, summary, interval) in enumerate(by_rung):
                yield [
                    *(ladder.data, ladder.ladder, score, curve.method, "yes" if curve.is_trained else "no"),
                    *(rung.split, rung.step, rung.class_distance, rung.sample_distance),
                    *(finite_or_none(summary.mean), finite_or_none(summary.deviation), len(summary.values)),
                    *(interval or (None, None)),
                    history.ranks[position] if history else None,
                    history.changes[position - 1] if history and position else None,
                    finite_or_none(history.shares[position]) if history else None,
                ]


def aggregated_rows(ladder: LadderResult, scores: Sequence[str], level: str = "class") -> Iterator[list[Value]]:
    """A row for each score and method; None for missing values."""
    distances = ladder.distances(level)
    for score in scores:
        for curve in ladder.curves:
            summary, interval = curve.aggregated(score, distances), curve.aggregated_interval(score, distances)
            yield [
                *(ladder.data, ladder.ladder, score, curve.method, "yes" if curve.is_trained else "no"),
                *(len(ladder.rungs), finite_or_none(summary.mean), finite_or_none(summary.deviation)),
                *(len(summary.values), *(interval or (None, None))),
            ]
