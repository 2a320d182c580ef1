"""Generalisation: what the methods of a study score over the rungs of a ladder, and what that is worth together."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from unseen.shifts import aggregated_score, rank_changes, ranks, relative_to_mean
from unseen.shifts.ladder import GROUPS
from unseen.studies.results.content import Content
from unseen.studies.results.ranking import Difference, MethodScores, Ranking, Summary, rankings

LEVELS = {"class": "class_distance", "sample": "sample_distance"}


@dataclass(frozen=True)
class Step:
    """A rung as its rows tell of it: the label of its split, its number and step on the ladder, its distances.

    `group` is the group of the test classes where the steps of the ladder are groups, else "".
    """

    split: str
    number: int
    name: str
    class_distance: float
    sample_distance: float
    group: str = ""


@dataclass(frozen=True, eq=False)
class MethodCurve:
    """A method over the rungs of a ladder; None on a rung where it has no finished cell."""

    method: str
    is_trained: bool
    entries: tuple[MethodScores | None, ...]

    def summaries(self, score: str) -> list[Summary]:
        """A score over the seeds on each rung; without values where there is no finished cell."""
        return [Summary(()) if entry is None else entry.summary(score) for entry in self.entries]

    def means(self, score: str) -> list[float]:
        """The mean over seeds on each rung; not a number where there is none."""
        return [summary.mean for summary in self.summaries(score)]

    def intervals(self, score: str) -> list[tuple[float, float] | None]:
        """Where the mean would lie on other classes of the same kind, on each rung."""
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
        shared = [seed for seed in by_seed[0] if all(math.isfinite(own.get(seed, math.nan)) for own in by_seed)]
        return Summary(tuple(float(aggregated_score(distances, [own[seed] for own in by_seed])) for seed in shared))

    def aggregated_interval(self, score: str, distances: Sequence[float]) -> tuple[float, float] | None:
        """The aggregates of the lower and of the upper ends: the widest case, all rungs erring the same way."""
        ends = self.intervals(score)
        if any(interval is None for interval in ends):
            return None
        low, high = (aggregated_score(distances, [each[side] for each in ends if each]) for side in (0, 1))
        return float(low), float(high)


@dataclass(frozen=True, eq=False)
class RankHistory:
    """Where a method stands among those with a score on every rung: on each rung, and from each rung to the next."""

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
    steps: tuple[Step, ...]
    courses: tuple[MethodCurve, ...]
    main_score: str
    lower_is_better: frozenset[str]
    differences: tuple[Difference, ...]

    @property
    def is_by_groups(self) -> bool:
        """Whether the rungs are groups of classes and can be called by their names."""
        return all(step.group for step in self.steps)

    def distances(self, level: str = "class") -> list[float]:
        """The distance of training and test on each rung, of class means or of samples."""
        return [getattr(step, LEVELS[level]) for step in self.steps]

    @cached_property
    def scores(self) -> tuple[str, ...]:
        """Every score of any row, in their order."""
        found = (
            name
            for course in self.courses
            for entry in course.entries
            if entry
            for row in entry.rows
            for name in row.scores
        )
        return tuple(dict.fromkeys(found))

    def standings(self, score: str) -> dict[int, RankHistory]:
        """The standing of each method by its position in `courses`; nothing where protocols are unlike.

        Methods without a score on every rung are left out: a mean over other methods on each rung says nothing.
        """
        complete = {str(place): each.means(score) for place, each in enumerate(self.courses) if each.is_complete(score)}
        if self.differences or len(complete) < 2:
            return {}
        is_high_best = score not in self.lower_is_better
        own, changes = (made(complete, higher_is_better=is_high_best) for made in (ranks, rank_changes))
        shares = relative_to_mean(complete)
        return {
            int(key): RankHistory(*(tuple(map(float, found[key])) for found in (own, changes, shares)))
            for key in complete
        }


def climbs(content: Content) -> tuple[LadderResult, ...]:
    """One for each data set and ladder of which two rungs or more, at different distances, have a finished cell."""
    groups: dict[tuple[str, str], list[tuple[Step, Ranking]]] = {}
    for table in rankings(content):
        step = step_of(table)
        if step is not None:
            groups.setdefault((table.data, ladder_of(table)), []).append((step, table))
    return tuple(climb for labels, found in groups.items() if (climb := _climb(*labels, found)) is not None)


def step_of(table: Ranking) -> Step | None:
    """The rung that a table was measured on; None for a split that is no rung of a ladder."""
    facts = _split_facts(table)
    if not {"ladder", "rung"} <= facts.keys() or not all(
        isinstance(facts.get(level), (int, float)) for level in LEVELS.values()
    ):
        return None
    name = str(facts.get("step", ""))
    of_classes, of_samples = (float(facts[level]) for level in LEVELS.values())
    return Step(
        table.split, int(facts["rung"]), name, of_classes, of_samples, name if facts.get("by") == GROUPS else ""
    )


def ladder_of(table: Ranking) -> str:
    """The first digits of the hash of the ladder."""
    return str(_split_facts(table)["ladder"])


def _split_facts(table: Ranking) -> Mapping[str, Any]:
    facts = table.entries[0].rows[0].protocol.get("split")
    return facts if isinstance(facts, Mapping) else {}


def _climb(data: str, ladder: str, found: Sequence[tuple[Step, Ranking]]) -> LadderResult | None:
    found = sorted(found, key=lambda pair: pair[0].class_distance)
    steps = tuple(step for step, _ in found)
    if len({step.class_distance for step in steps}) < max(2, len(steps)):
        return None
    tables = [table for _, table in found]
    keys = dict.fromkeys((entry.method, entry.is_trained) for table in tables for entry in table.entries)
    courses = [
        MethodCurve(
            *key,
            tuple(next((e for e in table.entries if (e.method, e.is_trained) == key), None) for table in tables),
        )
        for key in keys
    ]
    main, lower_is_better = tables[0].main_score, tables[0].lower_is_better
    distances = [step.class_distance for step in steps]
    sign = 1 if main in lower_is_better else -1

    def order(course: MethodCurve) -> tuple[bool, float, str]:
        mean = course.aggregated(main, distances).mean
        return (not course.is_trained, math.inf if math.isnan(mean) else sign * mean, course.method)

    unlike = {difference.path: difference for table in tables for difference in table.differences}
    return LadderResult(
        data=data,
        ladder=ladder,
        steps=steps,
        courses=tuple(sorted(courses, key=order)),
        main_score=main,
        lower_is_better=lower_is_better,
        differences=tuple(unlike.values()),
    )


RUNG_COLUMNS = (
    "data", "ladder", "score", "method", "trained", "rung", "step", "distance of class means", "distance of samples",
    "mean", "standard deviation", "seeds", "interval low", "interval high", "rank", "rank change", "relative to mean",
)  # fmt: skip
AGGREGATED_COLUMNS = (
    "data", "ladder", "score", "method", "trained", "rungs", "aggregated", "standard deviation", "seeds",
    "interval low", "interval high",
)  # fmt: skip


def rung_rows(climb: LadderResult, scores: Sequence[str]) -> Iterator[list[Any]]:
    """A line for each score, method and rung; what there is not stays empty."""
    for score in scores:
        standings = climb.standings(score)
        for place, course in enumerate(climb.courses):
            standing = standings.get(place)
            cells = zip(climb.steps, course.summaries(score), course.intervals(score), strict=True)
            for position, (step, summary, interval) in enumerate(cells):
                yield [
                    *(climb.data, climb.ladder, score, course.method, "yes" if course.is_trained else "no"),
                    *(step.split, step.name, step.class_distance, step.sample_distance),
                    *(_known(summary.mean), _known(summary.deviation), len(summary.values)),
                    *(interval or ("", "")),
                    standing.ranks[position] if standing else "",
                    standing.changes[position - 1] if standing and position else "",
                    _known(standing.shares[position]) if standing else "",
                ]


def aggregated_rows(climb: LadderResult, scores: Sequence[str], level: str = "class") -> Iterator[list[Any]]:
    """A line for each score and method; what there is not stays empty."""
    distances = climb.distances(level)
    for score in scores:
        for course in climb.courses:
            summary, interval = course.aggregated(score, distances), course.aggregated_interval(score, distances)
            yield [
                *(climb.data, climb.ladder, score, course.method, "yes" if course.is_trained else "no"),
                *(len(climb.steps), _known(summary.mean), _known(summary.deviation), len(summary.values)),
                *(interval or ("", "")),
            ]


def _known(value: float | None) -> float | str:
    return "" if value is None or not math.isfinite(value) else value
