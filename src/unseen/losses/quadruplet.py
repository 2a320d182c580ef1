"""Quadruplet loss: triplet loss plus hinges on pairs of two other classes."""

import torch
from torch import Tensor

from unseen.core.checks import check_at_least
from unseen.core.randomness import derive, key_from_torch, torch_generator
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import PairClasses, at_least_one, disjoint_hinges, listed_comparisons, triplet_hinges
from unseen.pairs.functional.small import flags, is_small
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets


def quadruplet(
    pairs: Pairs, chosen: Triplets | PairMasks, *, margin: float, second_margin: float, key: int | None
) -> LossOutput:
    """Both hinges over the chosen triplets, or all that the chosen pairs form; see `Quadruplet` for the formula.

    `key` determines the fourth samples, which are drawn for triplets only.
    """
    if isinstance(chosen, Triplets):
        fourth, has_fourth = fourth_samples(pairs, chosen, key_from_torch() if key is None else key)
        near, far = (chosen.anchor, chosen.positive), (chosen.anchor, chosen.negative)
        first = listed_comparisons(pairs.similarity, near, far, margin=margin)
        apart = (fourth, chosen.negative)
        second = listed_comparisons(pairs.similarity, near, apart, margin=second_margin, is_counted=has_fourth)
    else:
        first = triplet_hinges(pairs.distance, chosen.positive, chosen.negative, margin)
        classes = torch.cat((pairs.labels, pairs.ref_labels)).unique(return_inverse=True)[1]
        second = disjoint_hinges(
            pairs.distance,
            chosen.positive & pairs.same,
            chosen.negative & pairs.negative,
            PairClasses(classes[: len(pairs)], classes[len(pairs) :]),
            second_margin,
        )
    value = first.total / at_least_one(first.num_terms) + second.total / at_least_one(second.num_terms)
    return LossOutput(value, first.num_terms + second.num_terms, first.num_active + second.num_active)


def fourth_samples(pairs: Pairs, triplets: Triplets, key: int) -> tuple[Tensor, Tensor]:
    """For each triplet a uniformly drawn row of a third class, and whether there is one.

    Sorted by class, the two classes to avoid are two blocks: an index among all other rows is moved past them.
    """
    numbers = torch.rand(
        len(triplets.anchor), generator=torch_generator(derive(key, "fourth sample")), dtype=torch.float64
    )
    numbers.mul_(1 - 2**-40)  # slightly below 1, so that number x num_left never rounds up to num_left
    if is_small(pairs.same, torch.bool):
        from unseen.pairs.kernels.classes import third_class_rows

        own, others = pairs.labels.contiguous().numpy(), pairs.ref_labels.contiguous().numpy()
        rows, is_found = torch.empty_like(triplets.anchor), torch.empty(len(numbers), dtype=torch.bool)
        ends = torch.stack((triplets.anchor, triplets.negative)).numpy()
        third_class_rows(own, others, ends, numbers.numpy(), rows.numpy(), flags(is_found))
        return rows, is_found
    inverse = torch.cat((pairs.labels, pairs.ref_labels)).unique(return_inverse=True)[1]
    # Classes in order of appearance, so that the draw does not depend on their labels.
    ordered, places = inverse.sort(stable=True)
    classes = places[torch.searchsorted(ordered, inverse)]
    labels, order = classes[: len(pairs)].sort(stable=True)
    first, second = classes[triplets.anchor], classes[len(pairs) :][triplets.negative]
    blocks = torch.stack((torch.minimum(first, second), torch.maximum(first, second)))
    start = torch.searchsorted(labels, blocks)
    size = torch.searchsorted(labels, blocks, right=True) - start
    size[1] *= first != second  # triplets (a, a, p) avoid one class only
    num_left = len(labels) - size.sum(0)
    position = (numbers.to(num_left.device) * num_left).long()
    for block in range(2):
        position += (position >= start[block]) * size[block]
    return order[position.clamp_(max=len(labels) - 1)], num_left > 0


@loss("quadruplet")
class Quadruplet(PairLoss):
    r"""Quadruplet loss: triplet hinges plus hinges against pairs of two other classes.

    .. math:: \frac1{|T|} \sum_{(i,j,k) \in T} [d_{ij} - d_{ik} + \gamma_1]_+
              + \frac1{|Q|} \sum_{(i,j,k,l) \in Q} [d_{ij} - d_{lk} + \gamma_2]_+

    ==============  =========================================================================================
    d               Euclidean distance of normalised embeddings
    T               triplets of the miner, or all triplets of the batch
    Q               those triplets, each with one l of a third class, drawn uniformly by the key. Without a
                    miner, or with one that chooses pairs: all chosen positive pairs (i, j) with all chosen
                    negative pairs (l, k) of two other classes; nothing is drawn
    gamma_1         ``margin`` (>= 0), margin of the triplet term
    gamma_2         ``second_margin`` (>= 0), margin of the second term
    ==============  =========================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      anchors without positives or negatives have no triplet; with fewer than three classes the second
                term is 0; zero connected to the graph if both are empty
    Reference:  Chen et al., Beyond Triplet Loss: A Deep Quadruplet Network for Person Re-identification, CVPR 2017,
                arXiv:1704.01719
    Differs:    unsquared distances and the margins that Roth et al. (arXiv:2002.08473) print, without their
                misprint in the second term; their code has 0.2 for both margins
    """

    def __init__(self, *, margin: float = 1.0, second_margin: float = 0.5, miner: Miner | None = None) -> None:
        super().__init__()
        check_at_least("Quadruplet", "margin", margin, 0)
        check_at_least("Quadruplet", "second_margin", second_margin, 0)
        self.margin, self.second_margin, self.miner = margin, second_margin, miner

    def compute(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """Loss over the chosen triplets."""
        return quadruplet(pairs, chosen, margin=self.margin, second_margin=self.second_margin, key=key)
