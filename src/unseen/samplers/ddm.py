"""DDM: the candidate batch whose pairwise distances are distributed most like those of a big batch."""

from typing import Literal

import numpy as np

from unseen.core.checks import check_choice
from unseen.core.registry import sampler
from unseen.samplers.candidates import CandidateSampler

HistogramCost = Literal["distances", "reference"]

BINS = 50
WEIGHT = 75.0


def distance_costs(rows: np.ndarray, chosen: np.ndarray, *, compare: HistogramCost = "distances") -> np.ndarray:
    r"""Return how much each candidate differs from all rows in mean, deviation and pairwise distances.

    .. math:: |\mu - \mu'| + |\sigma - \sigma'| + 75\, W_1(h, h')

    ==========  ============================================================================================
    sigma       standard deviation of each dimension
    h, h'       histograms of the pairwise Euclidean distances, 50 bins over the range of the big batch
    W_1         "distances": Wasserstein distance of the two histograms, with mass at the bin centres;
                "reference": twice that of the sets of their heights, as in the authors' code
    ==========  ============================================================================================

    Shape:  rows (m, d), candidates as indices into them (k, b) -> (k,)
    Empty:  with fewer than two rows, or equal distances, the histograms are equal
    """
    squares = np.einsum("id,id->i", rows, rows)
    distances = np.sqrt(np.clip(squares[:, None] + squares[None, :] - 2 * (rows @ rows.T), 0, None))
    pairs = np.triu_indices(len(rows), 1)
    low, high = (distances[pairs].min(), distances[pairs].max()) if len(rows) > 1 else (0.0, 0.0)
    width = (high - low) / BINS
    bins = np.clip((distances - low) / (width or 1.0), 0, BINS - 1).astype(np.int64)
    heights = _heights(bins[pairs])
    own_pairs = np.triu_indices(chosen.shape[1], 1)
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    costs = np.empty(len(chosen))
    for number, indices in enumerate(chosen):
        own = _heights(bins[indices[own_pairs[0]], indices[own_pairs[1]]])
        if compare == "distances":
            distance = np.abs(np.cumsum(heights - own)).sum() * width
        else:
            distance = 2 * np.abs(np.sort(heights) - np.sort(own)).mean()
        part = rows[indices]
        moments = np.linalg.norm(mean - part.mean(axis=0)) + np.linalg.norm(deviation - part.std(axis=0))
        costs[number] = moments + WEIGHT * distance
    return costs


def _heights(bins: np.ndarray) -> np.ndarray:
    return np.bincount(bins, minlength=BINS) / max(1, len(bins))


@sampler("ddm")
class DistanceMatching(CandidateSampler):
    """Batches of b/n classes with n images each, with pairwise distances similar to those of a big batch.

    The candidate with the smallest `distance_costs` is used. Settings as in `CandidateSampler`, and `compare`:
    "distances", or "reference" for the histogram cost of the authors' code.

    Reference:  Roth et al., Revisiting Training Strategies, ICML 2020, arXiv:2002.08473 (DDM)
    Differs:    the authors' code compares histogram heights as if they were distances, as compare="reference" does
    """

    def __init__(
        self,
        *,
        batch_size: int = 112,
        per_class: int = 2,
        big_batch_size: int = 512,
        num_candidates: int = 10,
        compare: HistogramCost = "distances",
        project: int | None = None,
    ) -> None:
        super().__init__(
            batch_size=batch_size,
            per_class=per_class,
            big_batch_size=big_batch_size,
            num_candidates=num_candidates,
            project=project,
        )
        check_choice("DistanceMatching", "compare", compare, ("distances", "reference"))
        self.compare: HistogramCost = compare

    def costs(self, rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return the difference of each candidate in mean, deviation and pairwise distances."""
        return distance_costs(rows, chosen, compare=self.compare)
