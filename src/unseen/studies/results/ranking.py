"""Rankings: the rows of each data set and split by method, with mean and standard deviation over seeds.

Rows whose backbones were pretrained on different images have rankings of their own: one backbone may have seen what the
other is tested on.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from unseen.core.text import flat, number, value_text
from unseen.studies.results.content import Content, Row

# Protocol fields that say what is measured. Untrained rows must agree in these only: they have no training to compare.
MEASURED = (
    "data",
    "data_set",
    "dataset",
    "split",
    "scores",
    "score",
    "definitions",
    "evaluation",
    "counts",
    "pretraining",
)
MISSING = "–"


@dataclass(frozen=True)
class Summary:
    """One score over the seeds that have it."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean; NaN where a value is not finite or there is none."""
        if not self.values or not all(map(math.isfinite, self.values)):
            return math.nan
        return math.fsum(self.values) / len(self.values)

    @property
    def deviation(self) -> float | None:
        """The population standard deviation, or None for a single seed."""
        if len(self.values) < 2 or math.isnan(self.mean):
            return None
        return math.sqrt(math.fsum((value - self.mean) ** 2 for value in self.values) / len(self.values))

    def texts(self, *, percent: bool) -> tuple[str, str]:
        """Mean and standard deviation as strings; "–" for a missing value.

        >>> Summary((0.5, 0.7)).texts(percent=True), Summary((12.5,)).texts(percent=False)
        (('60.0', '10.0'), ('12.5', '–'))
        """
        mean = number(self.mean, percent=percent) if self.values else MISSING
        return mean, MISSING if self.deviation is None else number(self.deviation, percent=percent)


@dataclass(frozen=True, eq=False)
class MethodScores:
    """A method in one ranking: its rows, one per seed."""

    method: str
    is_trained: bool
    rows: tuple[Row, ...]
    rank: int | None = None

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return len(self.rows)

    def summary(self, score: str) -> Summary:
        """A score over the seeds."""
        return Summary(tuple(float(row.scores[score]) for row in self.rows if score in row.scores))

    def interval(self, score: str) -> tuple[float, float] | None:
        """The interval over classes, its ends averaged over seeds; None unless every seed has one."""
        intervals = [row.intervals.get(score) for row in self.rows if score in row.scores]
        ends = [interval for interval in intervals if interval is not None]
        if not ends or len(ends) < len(intervals):
            return None
        return math.fsum(low for low, _ in ends) / len(ends), math.fsum(high for _, high in ends) / len(ends)


@dataclass(frozen=True)
class Difference:
    """A protocol field in which rows of one ranking differ: each value with the methods that have it."""

    path: tuple[str, ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, eq=False)
class Ranking:
    """The methods of one data set and split: trained ones ranked, untrained ones listed apart.

    `pretraining` says what their backbones were pretrained on, if the data set and split have rankings of several.
    """

    data: str
    split: str
    pretraining: str
    main_score: str
    scores: tuple[str, ...]
    lower_is_better: frozenset[str]
    trained: tuple[MethodScores, ...]
    untrained: tuple[MethodScores, ...]
    differences: tuple[Difference, ...]

    @property
    def entries(self) -> tuple[MethodScores, ...]:
        """All methods, trained ones first."""
        return self.trained + self.untrained

    @cached_property
    def best(self) -> Mapping[str, float]:
        """The best mean of each score among trained methods; empty where they cannot be compared."""
        if self.differences or len(self.trained) < 2:
            return {}
        best = {}
        for score in self.scores:
            means = [mean for entry in self.trained if math.isfinite(mean := entry.summary(score).mean)]
            if means:
                best[score] = min(means) if score in self.lower_is_better else max(means)
        return best

    def is_best(self, entry: MethodScores, score: str) -> bool:
        """Whether a trained method has the best mean of a score."""
        return entry.is_trained and entry.summary(score).mean == self.best.get(score)

    @property
    def why_apart(self) -> str:
        """A sentence that names the pretraining; empty where all rankings share it."""
        return f"Backbones pretrained on {self.pretraining}" if self.pretraining else ""

    @property
    def why_unranked(self) -> str:
        """A sentence that names the fields in which protocols differ; empty where they agree."""
        fields = ", ".join(" › ".join(difference.path) for difference in self.differences)
        return f"Not ranked: different protocols, rows differ in {fields}" if fields else ""


def rankings(content: Content) -> tuple[Ranking, ...]:
    """One ranking for each data set, split and pretraining of the backbones, in order of first appearance."""
    groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in content.rows:
        by_pretraining = groups.setdefault((row.data, row.split), {})
        by_pretraining.setdefault(str(row.protocol.get("pretraining", "not stated")), []).append(row)
    return tuple(
        _ranking(content, rows, pretraining if len(by_pretraining) > 1 else "")
        for by_pretraining in groups.values()
        for pretraining, rows in by_pretraining.items()
    )


def unseparated_rankings(content: Content) -> tuple[Ranking, ...]:
    """One ranking for each data set and split, for curves of several backbones; unranked if pretraining differs."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in content.rows:
        groups.setdefault((row.data, row.split), []).append(row)
    return tuple(_ranking(content, rows, "") for rows in groups.values())


def score_names(content: Content) -> tuple[str, ...]:
    """Every score of any row, the main one first, then in order of first appearance."""
    names = dict.fromkeys(name for row in content.rows for name in row.scores)
    if content.main_score in names:
        names = {content.main_score: None} | names
    return tuple(names)


def are_percentages(content: Content) -> dict[str, bool]:
    """For each score whether it is shown in per cent: all its finite values lie in [0, 1] and it is a share."""
    answer = {}
    for name in score_names(content):
        values = [row.scores[name] for row in content.rows if name in row.scores]
        is_share = all(0 <= value <= 1 for value in values if math.isfinite(value))
        answer[name] = is_share and name not in content.not_shares
    return answer


def _ranking(content: Content, rows: Sequence[Row], pretraining: str) -> Ranking:
    names = tuple(name for name in score_names(content) if any(name in row.scores for row in rows))
    main = names[0] if names else content.main_score
    sign = 1 if main in content.lower_is_better else -1
    groups: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.method, row.is_trained), []).append(row)

    def order(entry: MethodScores) -> tuple[bool, float, str]:
        mean = entry.summary(main).mean
        return (math.isnan(mean), sign * mean, entry.method)

    entries = [
        MethodScores(method, is_trained, tuple(sorted(own, key=lambda row: row.seed)))
        for (method, is_trained), own in groups.items()
    ]
    unequal = differences(rows, content.may_differ)
    trained = sorted((entry for entry in entries if entry.is_trained), key=order)
    means = [entry.summary(main).mean for entry in trained]
    if not unequal:
        trained = [
            entry if math.isnan(mean) else replace(entry, rank=1 + means.index(mean))
            for entry, mean in zip(trained, means, strict=True)
        ]
    return Ranking(
        data=rows[0].data,
        split=rows[0].split,
        pretraining=pretraining,
        main_score=main,
        scores=names,
        lower_is_better=frozenset(content.lower_is_better),
        trained=tuple(trained),
        untrained=tuple(sorted((entry for entry in entries if not entry.is_trained), key=order)),
        differences=unequal,
    )


def protocol_fields(row: Row) -> dict[tuple[str, ...], str]:
    """Everything that a row's scores depend on, as path -> string: protocol, score definitions, counts."""
    fields = {path: value_text(value) for path, value in flat(row.protocol).items()}
    fields.update({("definitions", name): sentence for name, sentence in row.definitions.items()})
    fields.update({("counts", name): value_text(count) for name, count in row.counts.items()})
    return fields


def differences(rows: Sequence[Row], may_differ: Sequence[str]) -> tuple[Difference, ...]:
    """The protocol fields in which rows of one ranking differ although they should not.

    Fields below a name in `may_differ` are what is compared. Untrained rows are not ranked: they must agree only in the
    fields that say what is measured, where they have them.
    """
    by_row = [(row, protocol_fields(row)) for row in rows]
    unequal = []
    for path in dict.fromkeys(path for _, fields in by_row for path in fields):
        if any(part in may_differ for part in path):
            continue
        values: dict[str, list[Row]] = {}
        for row, fields in by_row:
            if row.is_trained or (path[0] in MEASURED and path in fields):
                values.setdefault(fields.get(path, "not stated"), []).append(row)
        if len(values) > 1:
            unequal.append(Difference(path, tuple((value, _method_names(own, rows)) for value, own in values.items())))
    return tuple(unequal)


def _method_names(own: Sequence[Row], rows: Sequence[Row]) -> tuple[str, ...]:
    """The methods of some rows; with the seed where only some seeds of a method are among them."""
    counts = Counter(row.method for row in rows)
    here = Counter(row.method for row in own)
    names = (r.method if here[r.method] == counts[r.method] else f"{r.method} seed {r.seed}" for r in own)
    return tuple(dict.fromkeys(names))
