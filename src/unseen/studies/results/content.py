"""What a report is made of: plain data, so that a report is a pure function of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unseen.evaluation.intervals import Draws
from unseen.evaluation.report_sample import ReportSample

# Protocol fields in which rows of one ranking may differ: they are what is compared.
MAY_DIFFER = ("method", "loss", "miner", "robust", "seed")


@dataclass(frozen=True, eq=False, kw_only=True)
class Row:
    """One measured cell: a method with one seed on one split of one data set.

    =============  ====================================================================================
    is_trained     False for rows that show what is there without learning (raw pixels, untrained network)
    counts         "queries", "classes", "gallery", "queries without positives", ...
    definitions    a sentence for each score
    intervals      for each score where it would lie on other classes of the same kind
    history        {"epoch", "step", "loss", "validation": {score: value} or absent, "seconds"} an epoch
    protocol       nested: everything that the scores depend on
    shown          embeddings and neighbours to draw, where they were kept
    draws          the scores in each draw of classes, where they were kept: for paired differences
    =============  ====================================================================================
    """

    data: str
    split: str
    method: str
    seed: int
    is_trained: bool
    scores: Mapping[str, float]
    counts: Mapping[str, int] = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)
    history: Sequence[Mapping[str, Any]] = ()
    protocol: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    shown: ReportSample | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    draws: Draws | None = None


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A cell that gave no scores: its labels (data, split, method, seed) and one sentence that says why."""

    labels: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class Picture:
    """An analysis as a report shows it: its picture as a data address, its remarks, and its numbers as texts."""

    name: str
    address: str
    size: tuple[int, int]
    remarks: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Content:
    """All that one report shows.

    ==================  ===============================================================================
    main_score          the score that ranks; where no row has it, the first score of the first row
    lower_is_better     scores of which less is better
    not_shares          scores that are no share of anything, so not to be read in per cent
    structure_scores    scores of how an embedding is built (densities, spectra), not of what it finds
    retrieval_scores    scores of what it finds
    split_descriptions  for a split label, words that follow "On": "characters never seen in training"
    compare_with        the untrained method that maps and neighbours show beside the best one
    may_differ          protocol fields (a component of the path) in which ranked rows may differ
    baseline            the method that paired differences of the others are taken to; "" for none
    pictures            analyses of the study, drawn before
    ==================  ===============================================================================
    """

    title: str
    version: str
    rows: Sequence[Row]
    description: str = ""
    failed: Sequence[Failed] = ()
    main_score: str = "recall@1"
    lower_is_better: Sequence[str] = ()
    not_shares: Sequence[str] = ()
    structure_scores: Sequence[str] = ()
    retrieval_scores: Sequence[str] = ()
    split_descriptions: Mapping[str, str] = field(default_factory=dict)
    compare_with: str = "untrained network"
    may_differ: Sequence[str] = MAY_DIFFER
    baseline: str = ""
    pictures: Sequence[Picture] = ()
