"""How structure scores of an embedding relate to retrieval scores over the rungs of a ladder."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unseen.analyses.base import Value
from unseen.analyses.correlation import Correlation, correlation
from unseen.analyses.shift.ladder_results import LadderResult
from unseen.studies.results.content import Content

START = "0"  # the step of a ladder from which its walk begins: the default split


@dataclass(frozen=True)
class Point:
    """A trained method on a rung: its means of a structure score and of a retrieval score."""

    method: str
    split: str
    is_start: bool
    structure: float
    retrieval: float


@dataclass(frozen=True)
class Trend:
    """The least-squares line through points, its slope when both scores are scaled to [0, 1], and the correlations."""

    correlation: Correlation
    slope: float
    intercept: float
    scaled_slope: float


@dataclass(frozen=True, eq=False)
class Relation:
    """A structure score and a retrieval score over all rungs and trained methods, and on the default split alone."""

    structure: str
    retrieval: str
    points: tuple[Point, ...]
    everywhere: Trend
    at_start: Trend


def relations(content: Content, ladder: LadderResult) -> list[Relation]:
    """Every structure score against every retrieval score.

    Untrained methods are left out: their features have another width, and spectra depend on it.
    """
    return [
        relation(ladder, structure, retrieval)
        for structure in content.structure_scores
        for retrieval in content.retrieval_scores
        if structure in ladder.scores and retrieval in ladder.scores
    ]


def relation(ladder: LadderResult, structure: str, retrieval: str) -> Relation:
    """One structure score against one retrieval score."""
    points = tuple(
        Point(curve.method, rung.split, rung.step == START, x, y)
        for curve in ladder.curves
        if curve.is_trained
        for rung, x, y in zip(ladder.rungs, curve.means(structure), curve.means(retrieval), strict=True)
        if math.isfinite(x) and math.isfinite(y)
    )
    return Relation(structure, retrieval, points, trend(points), trend([point for point in points if point.is_start]))


def trend(points: Sequence[Point]) -> Trend:
    """The trend of a retrieval score over a structure score.

    Empty:      NaN for fewer than 3 points, and where one side is constant
    """
    from scipy.stats import linregress

    x, y = (np.array([getattr(point, side) for point in points]) for side in ("structure", "retrieval"))
    correlated = correlation(x.tolist(), y.tolist())
    if not math.isfinite(correlated.pearson):
        return Trend(correlated, math.nan, math.nan, math.nan)
    line = linregress(x, y)
    return Trend(correlated, float(line.slope), float(line.intercept), float(line.slope * np.ptp(x) / np.ptp(y)))


COLUMNS = (
    "data", "ladder", "structure score", "retrieval score", "points", "Pearson", "Spearman", "slope, scaled",
    "points on the default split", "Pearson there", "Spearman there", "slope there, scaled",
)  # fmt: skip


def relation_row(ladder: LadderResult, related: Relation) -> list[Value]:
    """The numbers of a relation; None where they are not defined."""
    row: list[Value] = [ladder.data, ladder.ladder, related.structure, related.retrieval]
    for line in (related.everywhere, related.at_start):
        numbers = (line.correlation.pearson, line.correlation.spearman, line.scaled_slope)
        row += [line.correlation.points, *(value if math.isfinite(value) else None for value in numbers)]
    return row
