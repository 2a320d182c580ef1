"""Structure against shift: what scores of an embedding's structure tell of its retrieval scores (O, figs. 6 and 7)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unseen.analyses.correlation import Correlation, correlation
from unseen.analyses.generalisation import LadderResult
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


def relations(content: Content, climb: LadderResult) -> list[Relation]:
    """Every structure score against every retrieval score.

    Un-trained methods are left out: their features have a width of their own, and spectra depend on it.
    """
    known = climb.scores
    return [
        relation(climb, structure, retrieval)
        for structure in content.structure_scores
        for retrieval in content.retrieval_scores
        if structure in known and retrieval in known
    ]


def relation(climb: LadderResult, structure: str, retrieval: str) -> Relation:
    """One structure score against one retrieval score."""
    points = tuple(
        Point(course.method, step.split, step.name == START, one, other)
        for course in climb.courses
        if course.is_trained
        for step, one, other in zip(climb.steps, course.means(structure), course.means(retrieval), strict=True)
        if math.isfinite(one) and math.isfinite(other)
    )
    return Relation(structure, retrieval, points, trend(points), trend([point for point in points if point.is_start]))


def trend(points: Sequence[Point]) -> Trend:
    """The trend of a retrieval score over a structure score.

    Empty:      not a number for fewer than 3 points, and where one side is constant
    """
    x, y = (np.array([getattr(point, side) for point in points]) for side in ("structure", "retrieval"))
    found = correlation(x.tolist(), y.tolist())
    if not math.isfinite(found.pearson):
        return Trend(found, math.nan, math.nan, math.nan)
    slope = found.pearson * float(y.std() / x.std())
    intercept = float(y.mean() - slope * x.mean())
    return Trend(found, slope, intercept, slope * float(np.ptp(x) / np.ptp(y)))


COLUMNS = (
    "data", "ladder", "structure score", "retrieval score", "points", "Pearson", "Spearman", "slope, scaled",
    "points on the default split", "Pearson there", "Spearman there", "slope there, scaled",
)  # fmt: skip


def relation_row(climb: LadderResult, found: Relation) -> list[str | float | int]:
    """The numbers of a relation; empty where they are not defined."""
    row: list[str | float | int] = [climb.data, climb.ladder, found.structure, found.retrieval]
    for each in (found.everywhere, found.at_start):
        numbers = (each.correlation.pearson, each.correlation.spearman, each.scaled_slope)
        row += [each.correlation.points, *(value if math.isfinite(value) else "" for value in numbers)]
    return row
