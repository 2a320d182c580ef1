"""Rankings: the rows of each data set and split, by method, with mean and standard deviation over seeds."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from unseen.core.text import flat, number, value_text
from unseen.studies.results.content import Content, Row

# Where un-trained rows must agree with the others: what is measured. How one trains does not concern them.
MEASURED = ("data", "data_set", "dataset", "split", "scores", "score", "definitions", "evaluation", "counts")


@dataclass(frozen=True)
class Summary:
    """One score over the seeds that have it."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean; not a number where a value is not finite."""
        if not self.values or not all(map(math.isfinite, self.values)):
            return math.nan
        return math.fsum(self.values) / len(self.values)

    @property
    def deviation(self) -> float | None:
        """The population standard deviation, or None for a single seed."""
        if len(self.values) < 2 or math.isnan(self.mean):
            return None
        return math.sqrt(math.fsum((value - self.mean) ** 2 for value in self.values) / len(self.values))


@dataclass(frozen=True, eq=False)
class Entry:
    """A method in one table: its rows, one a seed."""

    method: str
    is_trained: bool
    rows: tuple[Row, ...]
    rank: int | None = None

    @property
    def seeds(self) -> int:
        """How many seeds there are."""
        return len(self.rows)

    def summary(self, score: str) -> Summary:
        """A score over the seeds."""
        return Summary(tuple(float(row.scores[score]) for row in self.rows if score in row.scores))

    def interval(self, score: str) -> tuple[float, float] | None:
        """The mean ends of the intervals of the seeds, where all of them have one: how classes differ, not seeds."""
        found = [row.intervals.get(score) for row in self.rows if score in row.scores]
        ends = [interval for interval in found if interval is not None]
        if not ends or len(ends) < len(found):
            return None
        return math.fsum(low for low, _ in ends) / len(ends), math.fsum(high for _, high in ends) / len(ends)


@dataclass(frozen=True)
class Difference:
    """A protocol field in which rows of one table differ: each value with the methods that have it."""

    path: tuple[str, ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, eq=False)
class Ranking:
    """One table: the methods of a data set and split, trained ones ranked, un-trained ones apart."""

    data: str
    split: str
    main_score: str
    scores: tuple[str, ...]
    lower_is_better: frozenset[str]
    trained: tuple[Entry, ...]
    untrained: tuple[Entry, ...]
    differences: tuple[Difference, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All methods, trained ones first."""
        return self.trained + self.untrained

    @cached_property
    def best(self) -> Mapping[str, float]:
        """The best mean of each score among trained methods; nothing where they cannot be compared."""
        if self.differences or len(self.trained) < 2:
            return {}
        means = {score: [entry.summary(score).mean for entry in self.trained] for score in self.scores}
        finite = {score: [mean for mean in found if math.isfinite(mean)] for score, found in means.items()}
        return {s: min(found) if s in self.lower_is_better else max(found) for s, found in finite.items() if found}


def rankings(content: Content) -> tuple[Ranking, ...]:
    """One ranking for each data set and split, in order of first appearance."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in content.rows:
        groups.setdefault((row.data, row.split), []).append(row)
    return tuple(_ranking(content, rows) for rows in groups.values())


def score_names(content: Content) -> tuple[str, ...]:
    """Every score of any row, the main one first, then in order of first appearance."""
    names = dict.fromkeys(name for row in content.rows for name in row.scores)
    if content.main_score in names:
        names = {content.main_score: None} | names
    return tuple(names)


def are_percentages(content: Content) -> dict[str, bool]:
    """For each score whether all its finite values lie in [0, 1], so that it reads best in per cent."""
    answer = {}
    for name in score_names(content):
        values = [row.scores[name] for row in content.rows if name in row.scores]
        is_share = all(0 <= value <= 1 for value in values if math.isfinite(value))
        answer[name] = is_share and name not in content.not_shares
    return answer


def _ranking(content: Content, rows: Sequence[Row]) -> Ranking:
    names = tuple(name for name in score_names(content) if any(name in row.scores for row in rows))
    main = names[0] if names else content.main_score
    is_low_best = main in content.lower_is_better
    groups: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.method, row.is_trained), []).append(row)
    entries = [
        Entry(method, is_trained, tuple(sorted(own, key=lambda row: row.seed)))
        for (method, is_trained), own in groups.items()
    ]

    def order(entry: Entry) -> tuple[bool, float, str]:
        mean = entry.summary(main).mean
        return (math.isnan(mean), mean if is_low_best else -mean, entry.method)

    found = differences(rows, content.may_differ)
    trained = sorted((entry for entry in entries if entry.is_trained), key=order)
    means = [entry.summary(main).mean for entry in trained]
    ranked = tuple(
        entry if found or math.isnan(mean) else Entry(entry.method, True, entry.rows, rank=1 + means.index(mean))
        for entry, mean in zip(trained, means, strict=True)
    )
    return Ranking(
        data=rows[0].data,
        split=rows[0].split,
        main_score=main,
        scores=names,
        lower_is_better=frozenset(content.lower_is_better),
        trained=ranked,
        untrained=tuple(sorted((entry for entry in entries if not entry.is_trained), key=order)),
        differences=found,
    )


def stamp(row: Row) -> dict[tuple[str, ...], str]:
    """All that a row's scores depend on, as path -> words: protocol, score definitions, counts."""
    fields = {path: value_text(value) for path, value in flat(row.protocol).items()}
    fields.update({("definitions", name): sentence for name, sentence in row.definitions.items()})
    fields.update({("counts", name): value_text(count) for name, count in row.counts.items()})
    return fields


def differences(rows: Sequence[Row], may_differ: Sequence[str]) -> tuple[Difference, ...]:
    """The protocol fields in which rows differ though rows of one ranking should not.

    Fields below a name in `may_differ` are what is compared. Un-trained rows are not ranked: they are held only to
    the fields that say what is measured, where they have them.
    """
    stamps = [(row, stamp(row)) for row in rows]
    paths = dict.fromkeys(path for _, fields in stamps for path in fields)
    found = []
    for path in paths:
        if any(part in may_differ for part in path):
            continue
        values: dict[str, list[Row]] = {}
        for row, fields in stamps:
            if row.is_trained or (path[0] in MEASURED and path in fields):
                values.setdefault(fields.get(path, "not stated"), []).append(row)
        if len(values) > 1:
            found.append(Difference(path, tuple((value, _who(own, rows)) for value, own in values.items())))
    return tuple(found)


def _who(own: Sequence[Row], rows: Sequence[Row]) -> tuple[str, ...]:
    """The methods of some rows; with the seed where only some seeds of a method are among them."""
    counts = Counter(row.method for row in rows)
    here = Counter(row.method for row in own)
    names = (r.method if here[r.method] == counts[r.method] else f"{r.method} seed {r.seed}" for r in own)
    return tuple(dict.fromkeys(names))


def cell(entry: Entry, score: str, *, percent: bool) -> tuple[str, str]:
    """Mean and standard deviation as text; "–" stands for what cannot be said."""
    summary = entry.summary(score)
    if not summary.values:
        return "–", "–"
    deviation = summary.deviation
    return number(summary.mean, percent=percent), "–" if deviation is None else number(deviation, percent=percent)
