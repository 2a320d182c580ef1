"""The stored results that a report shows, as plain data: a report is a pure function of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unseen.evaluation.intervals import Draws
from unseen.evaluation.report_sample import ReportSample

# Protocol fields in which rows of one ranking may differ: they are what is compared.
MAY_DIFFER = ("method", "loss", "miner", "robust", "average", "blend", "seed")


@dataclass(frozen=True, eq=False, kw_only=True)
class Row:
    """The result of one cell: a method with one seed on one split of one data set.

    =============  =============================================================================================
    is_trained     False for reference rows without training (raw pixels, an untrained network)
    counts         "queries", "classes", "gallery", "queries without positives", ...
    definitions    a sentence for each score
    intervals      for each score, its interval over classes
    history        per epoch {"epoch", "step", "loss", "validation": {score: value} or absent, "seconds"}
    protocol       nested: everything that the scores depend on
    sample         embeddings and neighbours to draw, where they were stored
    draws          the scores in each bootstrap draw of classes, where they were stored: for paired differences
    =============  =============================================================================================
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
    sample: ReportSample | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    draws: Draws | None = None


@dataclass(frozen=True)
class FailedCell:
    """A cell without scores: its labels (data, split, method, seed) and one sentence that says why."""

    labels: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class Picture:
    """An analysis as a report shows it: its picture as a data URI, its remarks, and its numbers as strings."""

    name: str
    address: str
    size: tuple[int, int]
    remarks: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Content:
    """Everything that one report shows.

    ==================  =================================================================================
    main_score          the score that ranks; where no row has it, the first score of the first row
    lower_is_better     scores of which lower is better
    not_shares          scores that are not shares and so not shown in per cent
    structure_scores    scores of the structure of an embedding (densities, spectra)
    retrieval_scores    scores of retrieval
    split_descriptions  for a split label, words that follow "On": "characters never seen in training"
    compare_with        the untrained method that maps and neighbours show beside the best one
    may_differ          protocol fields (a component of the path) in which ranked rows may differ
    baseline            the method that others are compared with in paired differences; "" for none
    pictures            finished analyses of the study
    ==================  =================================================================================
    """

    title: str
    version: str
    rows: Sequence[Row]
    description: str = ""
    failed: Sequence[FailedCell] = ()
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
