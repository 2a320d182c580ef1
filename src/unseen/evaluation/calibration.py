"""A calibrated threshold: the similarity above which two images are taken for the same item.

Its false-positive rate is chosen on some classes and kept on others only by and large. How far it strays is measured:
classes are dealt into groups, and the threshold chosen on half of the groups is tried on the other half, many times.
One pass over all pairs gives the histograms of every two groups, and every split is a sum of these.
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unseen.core.checks import check_above, check_between, check_count
from unseen.core.errors import BatchError
from unseen.core.randomness import derive, numpy_generator
from unseen.evaluation.exact.inputs import Embeddings, Labels, read_table
from unseen.evaluation.exact.pair_histograms import Histograms, centres, pair_histograms
from unseen.evaluation.exact.row_hashes import class_keys, order_of, row_keys

Numbers = NDArray[np.int64]
Interval = tuple[float, float]

GROUPS = 10


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A threshold, what it does on all pairs, and what such a threshold does on classes it was not chosen on.

    ============================  ================================================================================
    threshold                     pairs at least as similar are taken for the same item
    false_positive_rate           share of the pairs of two classes that pass it; at most the rate asked for
    true_positive_rate            share of the pairs of one class that pass it
    threshold_interval            where 95 % of the thresholds chosen on half of the classes lie
    held_out_false_positive_rate  mean share of the pairs of two classes that pass, on the half not chosen on
    held_out_true_positive_rate   the same for pairs of one class
    ..._interval                  where 95 % of these shares lie
    splits                        how often the classes were halved
    ============================  ================================================================================

    A half has half of the classes, so the intervals are wider than those of a threshold chosen on all: they err on the
    careful side.
    """

    threshold: float
    false_positive_rate: float
    true_positive_rate: float
    threshold_interval: Interval
    held_out_false_positive_rate: float
    held_out_false_positive_rate_interval: Interval
    held_out_true_positive_rate: float
    held_out_true_positive_rate_interval: Interval
    splits: int


def calibrate(
    embeddings: Embeddings,
    labels: Labels,
    *,
    false_positive_rate: float = 1e-3,
    splits: int = 100,
    seed: int = 0,
) -> Calibration:
    """The lowest threshold that at most this share of the pairs of two classes passes, and how well that holds.

    Similarities are told apart to 2^-15. Neither the order of the rows nor the names of the classes matter.

    Empty:   where too many pairs of two classes are equal (a collapsed model), the threshold is above 1: nothing passes
    Raises:  BatchError for fewer than 4 classes (each half needs two), or without any pair of one class
    """
    check_above("calibrate", "false_positive_rate", false_positive_rate, 0)
    check_between("calibrate", "false_positive_rate", false_positive_rate, 0, 1)
    check_count("calibrate", "splits", splits)
    check_count("calibrate", "seed", seed, at_least=0)
    table = read_table(embeddings, labels)
    classes = int(table.classes.max()) + 1
    if classes < 4:
        raise BatchError(
            "a threshold is tried on classes it was not chosen on", got=f"{classes} classes", hint="Use 4."
        )
    if classes == len(table.classes):
        raise BatchError("no two images share a class", got=f"{classes} classes", hint="Use labels that repeat.")
    keys = row_keys(table.directions)
    group_of = _deal(order_of(class_keys(keys, table.classes)), seed)
    passing = _passing(pair_histograms(table.directions, table.classes, groups=group_of[table.classes], keys=keys))

    everything = np.arange(len(passing.positives))
    place = _threshold_place(passing, everything, false_positive_rate)
    places, false_rates, true_rates = [], [], []
    for split in range(splits):
        shuffled = numpy_generator(derive(seed, "calibration", split)).permutation(everything)
        chosen_on, tried_on = np.split(shuffled, [len(everything) // 2])
        places.append(_threshold_place(passing, chosen_on, false_positive_rate))
        false_rates.append(_negatives(passing, tried_on, places[-1]) / _negatives(passing, tried_on, 0))
        # Half of the classes may all be of one image.
        if _positives(passing, tried_on, 0):
            true_rates.append(_positives(passing, tried_on, places[-1]) / _positives(passing, tried_on, 0))
    return Calibration(
        threshold=float(_lower_edges()[place]),
        false_positive_rate=_negatives(passing, everything, place) / _negatives(passing, everything, 0),
        true_positive_rate=_positives(passing, everything, place) / _positives(passing, everything, 0),
        threshold_interval=_interval(_lower_edges()[places]),
        held_out_false_positive_rate=float(np.mean(false_rates)),
        held_out_false_positive_rate_interval=_interval(false_rates),
        held_out_true_positive_rate=float(np.mean(true_rates or [0.0])),
        held_out_true_positive_rate_interval=_interval(true_rates or [0.0]),
        splits=splits,
    )


def _deal(order: Numbers, seed: int) -> Numbers:
    """The group of each class: all groups have as many classes, but for one, and at least one of them."""
    groups = min(GROUPS, len(order))
    shuffled = numpy_generator(derive(seed, "calibration groups")).permutation(order)
    group_of = np.empty(len(order), dtype=np.int64)
    group_of[shuffled] = np.arange(len(order)) % groups
    return group_of


def _passing(found: Histograms) -> Histograms:
    """How many pairs lie in each bin or above it, with a last bin that no pair reaches."""
    positives, negatives = (
        np.zeros((*counts.shape[:-1], counts.shape[-1] + 1), dtype=np.int64)
        for counts in (found.positives, found.negatives)
    )
    np.cumsum(found.positives[..., ::-1], axis=-1, out=positives[..., -2::-1])
    np.cumsum(found.negatives[..., ::-1], axis=-1, out=negatives[..., -2::-1])
    return Histograms(positives, negatives)


def _positives(passing: Histograms, groups: Numbers, place: int) -> int:
    return int(passing.positives[groups, place].sum())


def _negatives(passing: Histograms, groups: Numbers, place: int) -> int:
    # Of the pairs of two groups g, h only (g, h) or (h, g) is filled.
    return int(passing.negatives[groups[:, None], groups, place].sum())


def _threshold_place(passing: Histograms, groups: Numbers, rate: float) -> int:
    """The lowest bin that at most this share of the pairs of these groups reaches."""
    allowed = rate * _negatives(passing, groups, 0)
    places = range(passing.negatives.shape[-1])
    return bisect_left(places, True, key=lambda place: _negatives(passing, groups, place) <= allowed)


def _lower_edges() -> NDArray[np.float64]:
    middle = centres()
    width = middle[1] - middle[0]
    return np.append(middle, middle[-1] + width) - width / 2


def _interval(values: NDArray[np.float64] | list[float]) -> Interval:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)
