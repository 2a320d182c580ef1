"""Slow references for scores: every order of tied items, one ranking at a time, on small tables full of ties."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pytest

from unseen.evaluation import Ranks, evaluate

Loop: TypeAlias = Callable[[list[bool], int], float]
"""From a ranking (whether a positive stands at each place) and k to the value of a score for one query."""

KS = (1, 2, 3, 5)
# Sums of at most a few hundred terms of size one in float64.
TOLERANCE = 1e-12


def ranked_at(*places: int, candidates: int = 2000) -> Ranks:
    """The ranks of one query whose positives stand at these ranks, without ties."""
    return Ranks(
        above=np.array(places) - 1,
        tied=np.ones(len(places), dtype=np.int64),
        positives=np.array([len(places)]),
        candidates=np.array([candidates]),
    )


def clustered(
    seed: int = 0, count: int = 200, classes: int = 15, noise: float = 1.0, width: int = 8
) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), np.arange(classes), generator.integers(classes, size=count - 30)])
    return generator.normal(size=(classes, width))[labels] + noise * generator.normal(size=(count, width)), labels


def precision_sum(hits: Sequence[bool], places: int) -> float:
    total, positives = 0.0, 0
    for place, hit in enumerate(hits[:places], start=1):
        if hit:
            positives += 1
            total += positives / place
    return total


def divided(total: float, count: int) -> float:
    return total / count if count else 0.0


def cosine(one: Sequence[float], two: Sequence[float]) -> float:
    length = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in two))
    return sum(x * y for x, y in zip(one, two, strict=True)) / length if length else 0.0


def orders_of(rows: list[list[float]], labels: list[int], query: int) -> list[list[bool]]:
    """Every order of hits that the tied groups of one query allow; all are equally likely."""
    others = sorted((-cosine(rows[query], rows[other]), other) for other in range(len(rows)) if other != query)
    groups: list[tuple[float, list[bool]]] = []
    for distance, other in others:
        # Cosines of these tables are equal or differ by far more than this.
        if groups and abs(groups[-1][0] - distance) < 1e-9:
            groups[-1][1].append(labels[other] == labels[query])
        else:
            groups.append((distance, [labels[other] == labels[query]]))
    choices = [
        [
            tuple(place in chosen for place in range(len(group)))
            for chosen in itertools.combinations(range(len(group)), sum(group))
        ]
        for _, group in groups
    ]
    return [list(itertools.chain(*order)) for order in itertools.product(*choices)]


def random_table(number: int) -> tuple[list[list[float]], list[int]]:
    """A small table, mostly with ties: copies, opposite and zero vectors, or all rows distinct, or one point."""
    generator = np.random.default_rng(number)
    count = int(generator.integers(1, 10))
    labels = generator.integers(generator.integers(1, 5), size=count).tolist()
    kind = number % 4
    if kind == 0:
        rows = generator.integers(-1, 2, size=(count, 3)).astype(float)
    elif kind == 1:
        rows = generator.normal(size=(4, 3))[generator.integers(4, size=count)]
    elif kind == 2:
        rows = generator.normal(size=(count, 4))
    else:
        rows = np.where(generator.random((count, 1)) < 0.7, np.ones((count, 2)), generator.normal(size=(count, 2)))
    return rows.tolist(), labels


def check_on_random_tables(name: str, loop: Loop) -> None:
    """Assert that a score is the mean of the loop over all orders and queries, on 200 tables."""
    for number in range(200):
        rows, labels = random_table(number)
        for full_name, value in evaluate(np.array(rows), labels, scores=name, ks=KS, bootstrap=None).items():
            k = int(full_name.rpartition("@")[2]) if full_name != name else 0
            means = []
            for query in range(len(rows)):
                orders = orders_of(rows, labels, query)
                means.append(sum(loop(order, k) for order in orders) / len(orders))
            expected = sum(means) / len(means)
            assert value == pytest.approx(expected, abs=TOLERANCE), f"table {number}, {full_name}"


def check_collapsed(name: str, loop: Loop) -> None:
    """Assert that equal embeddings score at chance: the mean over many random orders."""
    labels = np.repeat(np.arange(6), 5)
    generator = np.random.default_rng(0)
    hits = np.repeat([True, False], [4, 25])
    orders = [generator.permutation(hits).tolist() for _ in range(4000)]
    for full_name, value in evaluate(np.ones((30, 4)), labels, scores=name, ks=KS, bootstrap=None).items():
        k = int(full_name.rpartition("@")[2]) if full_name != name else 0
        values = [loop(order, k) for order in orders]
        # Four standard errors of the mean over the random orders.
        error = float(np.std(values)) / math.sqrt(len(values))
        assert value == pytest.approx(np.mean(values), abs=4 * error + TOLERANCE)


def parametrized(loops: Mapping[str, Loop]) -> pytest.MarkDecorator:
    """One test per score, with its loop."""
    return pytest.mark.parametrize(("name", "loop"), loops.items(), ids=list(loops))
