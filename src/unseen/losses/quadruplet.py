"""Quadruplet: a positive pair must be nearer than its anchor's negative, and than a pair of two other classes."""

import torch
from torch import Tensor

from unseen.core.checks import check_at_least
from unseen.core.randomness import derive, key_from_torch, torch_generator
from unseen.core.registry import loss
from unseen.losses.base import PairLoss
from unseen.pairs.functional import distance_of
from unseen.pairs.hinges import over_all, with_slopes
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput, Miner, PairMasks, Triplets

GRID = 2.0**40
"""Whether a hinge is active is decided on distances rounded to 1 / GRID, whole numbers that compare exactly."""

CLASS_STEP = 2**43
"""Larger than every rounded distance, so that one number orders by class and then by distance."""


def quadruplet(
    pairs: Pairs, chosen: Triplets | PairMasks, *, margin: float, second_margin: float, key: int | None
) -> LossOutput:
    """Both hinges over chosen triplets, or over all that the chosen pairs form; formula with `Quadruplet`.

    `key` governs the draw of the fourth samples; only triplets need one.
    """
    if isinstance(chosen, PairMasks):
        total, used, active = over_all(pairs.distance, chosen, margin)
        second, second_used, second_active = _over_disjoint(pairs, chosen, second_margin)
        return LossOutput(total / used.clamp(min=1) + second, used + second_used, active + second_active)
    fourth, has_fourth = fourth_samples(pairs, chosen, key_from_torch() if key is None else key)
    rows = torch.stack((chosen.anchor, chosen.anchor, fourth))
    places = rows.mul_(pairs.similarity.shape[1]).add_(torch.stack((chosen.positive, chosen.negative, chosen.negative)))
    similarity = pairs.similarity.detach().take(places)
    distance = distance_of(similarity)
    hinges = distance[0] - distance[1:]
    hinges[0] += margin
    hinges[1] += second_margin
    is_used = torch.stack((torch.ones_like(has_fourth), has_fourth))
    is_active = (hinges > 0) & is_used
    shares = is_active / is_used.sum(1, keepdim=True, dtype=hinges.dtype).clamp_(min=1)
    # A hinge pushes its farther pair and pulls its positive one by its share. Slopes of the distances are -1/d, and
    # end where rounding takes a similarity beyond 1.
    slopes = torch.cat((shares.sum(0, keepdim=True).neg_(), shares)).div_(distance).mul_(similarity < 1)
    return LossOutput(with_slopes((hinges * shares).sum(), pairs.similarity, places, slopes), is_used, is_active)


def fourth_samples(pairs: Pairs, triplets: Triplets, key: int) -> tuple[Tensor, Tensor]:
    """For each triplet a row of a third class, uniform over all such rows, and whether there is one.

    Sorted by class, the two classes to avoid are two blocks: a number below what is left is moved past them.
    """
    inverse = torch.cat((pairs.labels, pairs.ref_labels)).unique(return_inverse=True)[1]
    # Classes in the order in which they appear, so that their names do not govern the draw.
    appears = torch.full_like(inverse, len(inverse))
    appears.scatter_reduce_(0, inverse, torch.arange(len(inverse), device=inverse.device), "amin")
    classes = appears[inverse]
    labels, order = classes[: len(pairs)].sort(stable=True)
    first, second = classes[triplets.anchor], classes[len(pairs) :][triplets.negative]
    blocks = torch.stack((torch.minimum(first, second), torch.maximum(first, second)))
    start = torch.searchsorted(labels, blocks)
    size = torch.searchsorted(labels, blocks, right=True) - start
    size[1] *= first != second  # triplets (a, a, p) avoid one class only
    left = len(labels) - size.sum(0)
    numbers = torch.rand(len(first), generator=torch_generator(derive(key, "fourth sample")), dtype=torch.float64)
    # A hair below 1, so that a share of what is left never rounds up to all of it.
    place = (numbers.mul_(1 - 2**-40).to(left.device) * left).long()
    for block in range(2):
        place += (place >= start[block]) * size[block]
    return order[place.clamp_(max=len(labels) - 1)], left > 0


def _over_disjoint(pairs: Pairs, chosen: PairMasks, margin: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mean hinge over all positive and negative pairs that share no class; how many there are, how many are active.

    As for triplets the sum is linear in the distances once each pair's number of active partners is known: those of
    any class, less those of the class of its row, less those of the class of its column. Needs n x n memory.
    """
    with torch.no_grad():
        distance, negative = pairs.distance.detach(), chosen.negative & pairs.negative
        classes = torch.cat((pairs.labels, pairs.ref_labels)).unique(return_inverse=True)[1]
        row_class, column_class = classes[: len(pairs), None], classes[len(pairs) :]
        anchor, other = (chosen.positive & pairs.same).nonzero(as_tuple=True)
        anchor_class = row_class[anchor, 0]
        # Distances end at 2, so a bound beyond 3 is as good as 3.
        bound = ((distance[anchor, other] + margin).clamp(0, 3) * GRID).long()
        reach = (distance * GRID).long()
        pull, push = _active_partners(bound, torch.zeros_like(anchor), reach, torch.zeros_like(row_class), negative)
        for negative_class in (row_class, column_class):
            shared = _active_partners(bound, anchor_class, reach, negative_class, negative)
            pull, push = pull - shared[0], push - shared[1]
        of_class = torch.bincount(anchor_class, minlength=len(classes))
        possible = ((len(anchor) - of_class[row_class] - of_class[column_class]) * negative).sum()
        active, count = pull.sum(), possible.clamp(min=1)
        weights = -push.double()
        weights[anchor, other] += pull
        weights = (weights / count).to(distance.dtype)
    return (pairs.distance * weights).sum() + margin * active.to(distance.dtype) / count, possible, active


def _active_partners(
    bound: Tensor, bound_class: Tensor, reach: Tensor, reach_class: Tensor, negative: Tensor
) -> tuple[Tensor, Tensor]:
    """For each positive its negatives of the same given class with reach < bound; for each negative its positives."""
    ordered, order = (bound_class * CLASS_STEP + bound).sort()
    place = torch.searchsorted(ordered, reach_class * CLASS_STEP + reach, right=True)
    end = torch.searchsorted(ordered, (reach_class + 1) * CLASS_STEP)
    of_negatives = (end - place) * negative
    # Sorted positives from `place` to `end` are the partners: counted at their first, then summed up to each positive.
    running = torch.bincount(place[of_negatives > 0], minlength=len(ordered)).cumsum(0)
    before = torch.searchsorted(ordered, bound_class[order] * CLASS_STEP)
    of_positives = torch.empty_like(bound)
    of_positives[order] = running - torch.cat((running.new_zeros(1), running))[before]
    return of_positives, of_negatives


@loss("quadruplet")
class Quadruplet(PairLoss):
    r"""What positive pairs lack to be nearer than their negatives and than other classes' pairs.

    .. math:: \frac1{|T|} \sum_{(i,j,k) \in T} [d_{ij} - d_{ik} + \gamma_1]_+
              + \frac1{|Q|} \sum_{(i,j,k,l) \in Q} [d_{ij} - d_{lk} + \gamma_2]_+

    ==============  =========================================================================================
    d               Euclidean distance of normalised embeddings
    T               triplets of an anchor, a positive and a negative: the miner's, or all of the batch
    Q               those triplets, each with one l of a third class, drawn uniformly by the key. Without a
                    miner, or with one that chooses pairs: all chosen positive pairs (i, j) with all chosen
                    negative pairs (l, k) of two other classes; nothing is drawn
    gamma_1         ``margin`` (>= 0), by which the anchor's own negative should be farther
    gamma_2         ``second_margin`` (>= 0), by which pairs of two other classes should be farther
    ==============  =========================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      an anchor without positives or negatives has no triplet; with fewer than three classes the second
                term is 0; zero connected to the graph if both are empty
    Reference:  Chen et al., Beyond Triplet Loss: A Deep Quadruplet Network for Person Re-identification, CVPR 2017,
                arXiv:1704.01719
    Differs:    un-squared distances and the margins that Roth et al. (arXiv:2002.08473) print, without their
                misprint in the second term; their code has 0.2 for both margins
    """

    def __init__(self, *, margin: float = 1.0, second_margin: float = 0.5, miner: Miner | None = None) -> None:
        super().__init__()
        check_at_least("Quadruplet", "margin", margin, 0)
        check_at_least("Quadruplet", "second_margin", second_margin, 0)
        self.margin, self.second_margin, self.miner = margin, second_margin, miner

    def outcome(self, pairs: Pairs, chosen: Triplets | PairMasks, key: int | None = None) -> LossOutput:
        """The value over the chosen triplets."""
        return quadruplet(pairs, chosen, margin=self.margin, second_margin=self.second_margin, key=key)
