"""A calibrated threshold: the similarity above which two images are taken for the same item.

A threshold chosen for some false-positive rate keeps that rate on other classes only approximately. How far it strays
is measured: classes are divided into groups, and the threshold chosen on half of the groups is tested on the other
half, many times. One pass over all pairs gives the histograms of every two groups, and every split is a sum of these.
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from unseen.core.checks import check_above, check_between, check_count
from unseen.core.errors import BatchError
from unseen.core.randomness import derive, numpy_generator
from unseen.evaluation.exact.arrays import Floats, Integers
from unseen.evaluation.exact.inputs import Embeddings, Labels, read_table
from unseen.evaluation.exact.pair_histograms import Histograms, bin_centres, pair_histograms
from unseen.evaluation.exact.row_hashes import class_keys, order_of, row_keys

Interval = tuple[float, float]

GROUPS = 10


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A threshold, its rates on all pairs, and the rates of such a threshold on held-out classes.

    ============================  ================================================================================
    threshold                     pairs at least as similar are taken for the same item
    false_positive_rate           share of pairs of two classes that pass it; at most the requested rate
    true_positive_rate            share of pairs of one class that pass it
    threshold_interval            95 % interval of the thresholds chosen on half of the classes
    held_out_false_positive_rate  mean share of pairs of two classes that pass, on the other half
    held_out_true_positive_rate   the same for pairs of one class
    ..._interval                  95 % interval of these shares
    splits                        number of random halvings of the classes
    ============================  ================================================================================

    A threshold chosen on half of the classes varies more than one chosen on all, so the intervals are conservative.
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
    embeddings: Embeddings, labels: Labels, *, false_positive_rate: float = 1e-3, splits: int = 100, seed: int = 0
) -> Calibration:
    """The lowest threshold with at most this false-positive rate over pairs, and how well it holds on other classes.

    Similarities are resolved to 2^-15. Neither the order of the rows nor the names of the classes matter.

    Empty:   if too many pairs of two classes are equal (a collapsed model), the threshold is above 1: no pair passes
    Raises:  BatchError for fewer than 4 classes (each half needs two), or if no two images share a class
    """
    check_above("calibrate", "false_positive_rate", false_positive_rate, 0)
    check_between("calibrate", "false_positive_rate", false_positive_rate, 0, 1)
    check_count("calibrate", "splits", splits)
    check_count("calibrate", "seed", seed, at_least=0)
    table = read_table(embeddings, labels)
    classes = table.class_count
    if classes < 4:
        message = "a threshold is tested on classes it was not chosen on"
        raise BatchError(message, got=f"{classes} classes", hint="Use at least 4 classes.")
    if classes == len(table.classes):
        raise BatchError("no two images share a class", got=f"{classes} classes", hint="Use labels that repeat.")
    keys = row_keys(table.directions)
    class_groups = _group_classes(order_of(class_keys(keys, table.classes)), seed)
    passing = _pairs_from_bin(pair_histograms(table, class_groups=class_groups, keys=keys))

    centres = bin_centres()
    half = (centres[1] - centres[0]) / 2
    lower_edges = np.append(centres - half, centres[-1] + half)
    groups = np.arange(len(passing.positives))
    threshold_bin = _threshold_bin(passing, groups, false_positive_rate)
    bins, false_rates, true_rates = [], [], []
    for split in range(splits):
        shuffled = numpy_generator(derive(seed, "calibration", split)).permutation(groups)
        chosen_on, tested_on = np.split(shuffled, [len(groups) // 2])
        bins.append(_threshold_bin(passing, chosen_on, false_positive_rate))
        false_rates.append(_negatives(passing, tested_on, bins[-1]) / _negatives(passing, tested_on, 0))
        # All classes of a half may have a single image.
        if _positives(passing, tested_on, 0):
            true_rates.append(_positives(passing, tested_on, bins[-1]) / _positives(passing, tested_on, 0))
    return Calibration(
        threshold=float(lower_edges[threshold_bin]),
        false_positive_rate=_negatives(passing, groups, threshold_bin) / _negatives(passing, groups, 0),
        true_positive_rate=_positives(passing, groups, threshold_bin) / _positives(passing, groups, 0),
        threshold_interval=_interval(lower_edges[bins]),
        held_out_false_positive_rate=float(np.mean(false_rates)),
        held_out_false_positive_rate_interval=_interval(false_rates),
        held_out_true_positive_rate=float(np.mean(true_rates or [0.0])),
        held_out_true_positive_rate_interval=_interval(true_rates or [0.0]),
        splits=splits,
    )


def _group_classes(order: Integers, seed: int) -> Integers:
    """A random group for each class; group sizes differ by at most one."""
    groups = min(GROUPS, len(order))
    shuffled = numpy_generator(derive(seed, "calibration groups")).permutation(order)
    class_groups = np.empty(len(order), dtype=np.int64)
    class_groups[shuffled] = np.arange(len(order)) % groups
    return class_groups


def _pairs_from_bin(histograms: Histograms) -> Histograms:
    """The number of pairs in each bin or above it, with a last bin that no pair reaches."""

    def reversed_sums(counts: Integers) -> Integers:
        sums = np.zeros((*counts.shape[:-1], counts.shape[-1] + 1), dtype=np.int64)
        np.cumsum(counts[..., ::-1], axis=-1, out=sums[..., -2::-1])
        return sums

    return Histograms(reversed_sums(histograms.positives), reversed_sums(histograms.negatives))


def _positives(passing: Histograms, groups: Integers, first_bin: int) -> int:
    return int(passing.positives[groups, first_bin].sum())


def _negatives(passing: Histograms, groups: Integers, first_bin: int) -> int:
    # Of two groups g, h only one of (g, h) and (h, g) is filled.
    return int(passing.negatives[groups[:, None], groups, first_bin].sum())


def _threshold_bin(passing: Histograms, groups: Integers, rate: float) -> int:
    """The lowest bin that at most this share of the pairs of these groups reaches."""
    allowed = rate * _negatives(passing, groups, 0)
    bins = range(passing.negatives.shape[-1])
    return bisect_left(bins, True, key=lambda first_bin: _negatives(passing, groups, first_bin) <= allowed)


def _interval(values: Floats | list[float]) -> Interval:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)
