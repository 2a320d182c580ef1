"""Paired differences: each method of a ranking minus the baseline, seed by seed on the same classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from unseen.core.errors import ConfigError
from unseen.core.text import listed, signed
from unseen.evaluation.comparison import average, compare
from unseen.evaluation.intervals import Bootstrap
from unseen.evaluation.score_table import Scores
from unseen.studies.results.content import Content, Row
from unseen.studies.results.ranking import Entry, Ranking, Summary, stamp

COMPARED = ("recall@1", "map@1000", "nmi", "rho")  # beside the main score
Verdict = Literal["better", "worse", ""]


@dataclass(frozen=True)
class PairedScore:
    """A method's score minus the baseline's.

    =========  ================================================================================
    value      mean over the seeds that both have
    low, high  its interval over classes: the same draws of classes for both and for all seeds
    by_seed    the difference of each seed
    verdict    "" where the interval holds 0, or where the protocols differ
    =========  ================================================================================
    """

    value: float
    low: float
    high: float
    by_seed: Mapping[int, float]
    verdict: Verdict

    @property
    def deviation(self) -> float | None:
        """The population standard deviation over seeds, or None for a single one."""
        return Summary(tuple(self.by_seed.values())).deviation


@dataclass(frozen=True, eq=False)
class PairedEntry:
    """A method beside the baseline: its differences by score, and the seeds that both have."""

    entry: Entry
    scores: Mapping[str, PairedScore]
    seeds: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Paired:
    """The paired differences of one ranking, in its order; `left_out` says for a method what is missing, and why."""

    baseline: str
    scores: tuple[str, ...]
    entries: tuple[PairedEntry, ...]
    left_out: tuple[tuple[str, str], ...]
    confidence: float

    def of(self, entry: Entry) -> PairedEntry | None:
        """The differences of a method of the ranking."""
        return next((paired for paired in self.entries if paired.entry is entry), None)

    def why_left_out(self, entry: Entry) -> str:
        """What is missing of a method, in words; "" where nothing is."""
        return "; ".join(why for method, why in self.left_out if method == entry.method)

    @property
    def words(self) -> str:
        """What the numbers mean."""
        return (
            f"Method minus {self.baseline}: the mean over the seeds that both have, each difference taken on the same "
            f"test set. The {self.confidence:.0%} interval covers the choice of classes, not of seeds: the test "
            "classes were drawn anew, the same ones for both. The spread over seeds stands apart: ± is its population "
            "standard deviation. Where the interval holds 0 a method is called neither better nor worse; one in "
            f"{round(1 / (1 - self.confidence))} such intervals is off by chance. Shares are in percentage points."
        )


def paired_differences(content: Content, table: Ranking) -> Paired | None:
    """The paired differences of a ranking's methods to the baseline; None where no baseline was named.

    Empty:  what cannot be compared is left out by name: a cell without draws, a method without a seed in common
    """
    if not content.baseline:
        return None
    scores = tuple(dict.fromkeys([table.main_score, *(name for name in COMPARED if name in table.scores)]))
    base = next((entry for entry in table.entries if entry.method == content.baseline), None)
    if base is None:
        why = "it has no finished cell here, so that no difference to it can be told"
        return Paired(content.baseline, scores, (), ((content.baseline, why),), Bootstrap().confidence)
    entries, left_out, confidence = [], _without_draws(base), Bootstrap().confidence
    for entry in table.entries:
        if entry is base:
            continue
        left_out += _without_draws(entry)
        pairs = _pairs(base, entry)
        if not pairs:
            left_out.append((entry.method, f"no seed of which both it and {base.method} kept draws"))
            continue
        if not _are_tested_alike(pairs):
            left_out.append((entry.method, f"it was not measured on the data and split of {base.method}"))
            continue
        try:
            found, confidence = _differences(pairs, scores, table)
        except ConfigError as problem:
            left_out.append((entry.method, str(problem)))
            continue
        missing = [name for name in scores if name not in found]
        if missing:
            left_out.append((entry.method, f"no draws of {listed(missing)} were kept on both sides"))
        if found:
            entries.append(PairedEntry(entry, found, tuple(pairs)))
    return Paired(base.method, scores, tuple(entries), tuple(left_out), confidence)


def paired_texts(paired: PairedScore, *, percent: bool) -> tuple[str, str, str]:
    """Difference, spread over seeds and interval over classes as text; "–" for the spread of a single seed.

    >>> paired_texts(PairedScore(0.012, -0.001, 0.025, {0: 0.012}, ""), percent=True)
    ('+1.20', '–', '−0.10 to +2.50')
    """
    deviation = paired.deviation
    spread = "–" if deviation is None else signed(deviation, percent=percent).removeprefix("+")
    low, high = (signed(end, percent=percent) for end in (paired.low, paired.high))
    return signed(paired.value, percent=percent), spread, f"{low} to {high}"


def _without_draws(entry: Entry) -> list[tuple[str, str]]:
    seeds = [str(row.seed) for row in entry.rows if row.draws is None]
    what = "seed" if len(seeds) == 1 else "seeds"
    return [(entry.method, f"no draws were kept of {what} {listed(seeds)}")] if seeds else []


def _pairs(base: Entry, entry: Entry) -> dict[int, tuple[Row, Row]]:
    """By seed, the rows of baseline and method where both have draws."""
    bases = {row.seed: row for row in base.rows if row.draws is not None}
    drawn = [row for row in entry.rows if row.draws is not None]
    return {row.seed: (bases[row.seed], row) for row in drawn if row.seed in bases}


def _are_tested_alike(pairs: Mapping[int, tuple[Row, Row]]) -> bool:
    stamps = [stamp(row) for pair in pairs.values() for row in pair]
    tested = [{path: value for path, value in each.items() if path[0] in ("data", "split")} for each in stamps]
    return all(each == tested[0] for each in tested)


def _differences(
    pairs: Mapping[int, tuple[Row, Row]], scores: tuple[str, ...], table: Ranking
) -> tuple[dict[str, PairedScore], float]:
    by_seed = {seed: compare(_scores(first), _scores(second)) for seed, (first, second) in pairs.items()}
    firsts, seconds = ([_scores(pair[side]) for pair in pairs.values()] for side in (0, 1))
    mean = compare(average(firsts), average(seconds))
    found = {}
    for name in scores:
        if name in mean:
            value, low, high = mean[name].value, mean[name].low, mean[name].high
            verdict: Verdict = ""
            if not table.differences and (low > 0 or high < 0):
                verdict = "better" if (high < 0) == (name in table.lower_is_better) else "worse"
            differences = {seed: comparison[name].value for seed, comparison in by_seed.items()}
            found[name] = PairedScore(value, low, high, differences, verdict)
    return found, mean.confidence


def _scores(row: Row) -> Scores:
    return Scores(
        numbers=row.scores,
        definitions={name: row.definitions.get(name, "") for name in row.scores},
        queries=row.counts.get("queries", 0),
        gallery=row.counts.get("gallery", 0),
        classes=row.counts.get("classes", 0),
        queries_without_positives=row.counts.get("queries without positives", 0),
        draws=row.draws,
    )
