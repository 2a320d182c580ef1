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
from unseen.studies.results.ranking import MethodScores, Ranking, Summary, protocol_fields

COMPARED = ("recall@1", "map@1000", "nmi", "rho")  # in addition to the main score
Verdict = Literal["better", "worse", ""]


@dataclass(frozen=True)
class PairedScore:
    """A method's score minus the baseline's.

    =========  ================================================================================
    value      mean over the seeds that both have
    low, high  its interval over classes: the same draws of classes for both and for all seeds
    by_seed    the difference of each seed
    verdict    "" where the interval contains 0, or where the protocols differ
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
class PairedMethod:
    """A method compared with the baseline: its differences by score, and the seeds that both have."""

    entry: MethodScores
    scores: Mapping[str, PairedScore]
    seeds: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PairedComparison:
    """The paired differences of one ranking, in its order; `left_out` pairs a method with what is missing and why."""

    baseline: str
    scores: tuple[str, ...]
    entries: tuple[PairedMethod, ...]
    left_out: tuple[tuple[str, str], ...]
    confidence: float

    @property
    def explanation(self) -> str:
        """What the numbers mean."""
        return (
            f"Method minus {self.baseline}: the mean over the seeds that both have, on the same test set. The "
            f"{self.confidence:.0%} interval covers the choice of classes, not of seeds: test classes were resampled, "
            "the same ones for both methods. ± is the population standard deviation over seeds. Where the interval "
            "contains 0, a method is called neither better nor worse; about one in "
            f"{round(1 / (1 - self.confidence))} such intervals misses the true value. Shares are in percentage points."
        )


def paired_differences(content: Content, table: Ranking) -> PairedComparison | None:
    """The paired differences of a ranking's methods to the baseline; None where no baseline was named.

    Empty:  what cannot be compared is listed in `left_out`: a cell without draws, a method without a common seed
    """
    if not content.baseline:
        return None
    scores = tuple(dict.fromkeys([table.main_score, *(name for name in COMPARED if name in table.scores)]))
    base = next((entry for entry in table.entries if entry.method == content.baseline), None)
    if base is None:
        why = "it has no finished cell here, so nothing can be compared with it"
        if table.pretraining:
            why = f"it has no finished cell with a backbone pretrained on {table.pretraining}"
        return PairedComparison(content.baseline, scores, (), ((content.baseline, why),), Bootstrap().confidence)
    entries, left_out, confidence = [], _without_draws(base), Bootstrap().confidence
    for entry in table.entries:
        if entry is base:
            continue
        left_out += _without_draws(entry)
        pairs = _pairs(base, entry)
        if not pairs:
            left_out.append((entry.method, f"no seed for which both it and {base.method} stored draws"))
            continue
        if not _have_one_test_set(pairs):
            left_out.append((entry.method, f"it was not measured on the data and split of {base.method}"))
            continue
        try:
            compared, confidence = _differences(pairs, scores, table)
        except ConfigError as problem:
            left_out.append((entry.method, str(problem)))
            continue
        missing = [name for name in scores if name not in compared]
        if missing:
            left_out.append((entry.method, f"no draws of {listed(missing)} were stored on both sides"))
        if compared:
            entries.append(PairedMethod(entry, compared, tuple(pairs)))
    return PairedComparison(base.method, scores, tuple(entries), tuple(left_out), confidence)


def paired_texts(paired: PairedScore, *, percent: bool) -> tuple[str, str, str]:
    """Difference, spread over seeds and interval over classes as strings; "–" for the spread of a single seed.

    >>> paired_texts(PairedScore(0.012, -0.001, 0.025, {0: 0.012}, ""), percent=True)
    ('+1.20', '–', '−0.10 to +2.50')
    """
    deviation = paired.deviation
    spread = "–" if deviation is None else signed(deviation, percent=percent).removeprefix("+")
    low, high = (signed(end, percent=percent) for end in (paired.low, paired.high))
    return signed(paired.value, percent=percent), spread, f"{low} to {high}"


def _without_draws(entry: MethodScores) -> list[tuple[str, str]]:
    seeds = [str(row.seed) for row in entry.rows if row.draws is None]
    what = "seed" if len(seeds) == 1 else "seeds"
    return [(entry.method, f"no draws were stored for {what} {listed(seeds)}")] if seeds else []


def _pairs(base: MethodScores, entry: MethodScores) -> dict[int, tuple[Row, Row]]:
    """By seed, the rows of baseline and method where both have draws."""
    bases = {row.seed: row for row in base.rows if row.draws is not None}
    rows = [row for row in entry.rows if row.draws is not None]
    return {row.seed: (bases[row.seed], row) for row in rows if row.seed in bases}


def _have_one_test_set(pairs: Mapping[int, tuple[Row, Row]]) -> bool:
    fields = [protocol_fields(row) for pair in pairs.values() for row in pair]
    tested = [{path: value for path, value in own.items() if path[0] in ("data", "split")} for own in fields]
    return all(own == tested[0] for own in tested)


def _differences(
    pairs: Mapping[int, tuple[Row, Row]], scores: tuple[str, ...], table: Ranking
) -> tuple[dict[str, PairedScore], float]:
    by_seed = {seed: compare(_scores(first), _scores(second)) for seed, (first, second) in pairs.items()}
    firsts, seconds = ([_scores(pair[side]) for pair in pairs.values()] for side in (0, 1))
    mean = compare(average(firsts), average(seconds))
    paired = {}
    for name in scores:
        if name in mean:
            value, low, high = mean[name].value, mean[name].low, mean[name].high
            verdict: Verdict = ""
            if not table.differences and (low > 0 or high < 0):
                verdict = "better" if (high < 0) == (name in table.lower_is_better) else "worse"
            differences = {seed: comparison[name].value for seed, comparison in by_seed.items()}
            paired[name] = PairedScore(value, low, high, differences, verdict)
    return paired, mean.confidence


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
