"""Cases: every loss with its usual miner, what pytorch-metric-learning has for the same, and the floor of both."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from pytorch_metric_learning import distances, regularizers
from pytorch_metric_learning import losses as their_losses
from pytorch_metric_learning import miners as their_miners
from pytorch_metric_learning.reducers import MeanReducer, SumReducer
from torch.nn.functional import normalize

from bench.measuring import Size
from unseen import losses, miners, robust
from unseen.core.randomness import derive, torch_generator

CLASSES_IN_GROUP = 8


class Case(NamedTuple):
    """A loss of ours as a function of the size, and theirs: a pair (loss, miner or None), or None.

    `kind` says which target holds: pair, mined, proxy, or memory, which has none. `note` says where theirs is not the
    same computation.
    """

    name: str
    kind: str
    ours: Callable
    theirs: Callable | None = None
    note: str = ""


def batch_of(size):
    """Embeddings of unit length in overlapping classes, eight classes a group, groups closer and looser; labels."""
    generator = torch_generator(derive(0, "bench batch", *size))
    own = torch.arange(size.batch) // size.per_class
    group = own // CLASSES_IN_GROUP
    closeness = torch.linspace(0.3, 1.5, int(group[-1]) + 1)[group, None]
    groups = closeness * torch.randn(len(own), size.width, generator=generator)[group]
    centres = torch.randn(len(own), size.width, generator=generator)[own]
    noise = torch.randn(size.batch, size.width, generator=generator)
    embeddings = normalize(groups + 0.7 * centres + noise)
    return embeddings, own % size.classes if size.classes else own


def our_step(case, size):
    """One forward and backward of ours; the key is the step's number."""
    embeddings, labels = batch_of(size)
    embeddings.requires_grad_()
    loss = case.ours(size)
    leaves = [embeddings, *loss.parameters()]

    def step(number):
        for leaf in leaves:
            leaf.grad = None
        loss(embeddings, labels, key=number).backward()

    return step


def their_step(case, size):
    """One forward and backward of theirs, mining included."""
    embeddings, labels = batch_of(size)
    embeddings.requires_grad_()
    loss, miner = case.theirs(size)
    leaves = [embeddings, *loss.parameters()]

    def step(number):
        for leaf in leaves:
            leaf.grad = None
        loss(embeddings, labels, miner(embeddings, labels) if miner else None).backward()

    return step


def floor_step(size):
    """One product of all similarities, of the batch with itself or with the proxies, and its two backward."""
    left = batch_of(size)[0].requires_grad_()
    right = batch_of(Size(size.classes, size.width))[0].requires_grad_() if size.classes else left
    gradient = torch.full((len(left), len(right)), 1e-4)

    def step(number):
        left.grad = right.grad = None
        (left @ right.T).backward(gradient)

    return step


def bare_step(size):
    """The three products of the floor without autograd."""
    rows = batch_of(size)[0]
    gradient = torch.full((size.batch, size.batch), 1e-4)

    def step(number):
        rows @ rows.T
        gradient @ rows
        gradient.T @ rows

    return step


def distance():
    return miners.DistanceWeighted()


def their_distance():
    return their_miners.DistanceWeightedMiner(cutoff=0.5, nonzero_loss_cutoff=1.4)


def their_triplet(**settings):
    return their_losses.TripletMarginLoss(
        margin=0.2, distance=distances.LpDistance(power=2), reducer=MeanReducer(), **settings
    )


def squared_length():
    return {"embedding_regularizer": regularizers.LpRegularizer(power=2), "embedding_reg_weight": 0.005}


def their_snr(size):
    loss = their_losses.TripletMarginLoss(
        margin=0.2,
        distance=distances.SNRDistance(normalize_embeddings=False),
        embedding_regularizer=regularizers.ZeroMeanRegularizer(),
        embedding_reg_weight=0.005,
    )
    return loss, their_distance()


def their_generalized_lifted(size):
    distance = distances.LpDistance(normalize_embeddings=False)
    return their_losses.GeneralizedLiftedStructureLoss(distance=distance, **squared_length()), None


def their_lifted(size):
    # Equation 3 of D under another name: the margins cancel, and similarities stand for distances.
    distance = distances.CosineSimilarity()
    return their_losses.GeneralizedLiftedStructureLoss(0, 0, distance=distance, reducer=SumReducer()), None


def their_soft_triple(size):
    loss = their_losses.SoftTripleLoss(
        size.classes,
        size.width,
        centers_per_class=2,
        la=8,
        gamma=0.1,
        margin=0.01,
        weight_regularizer=regularizers.SparseCentersRegularizer(size.classes, 2),
        weight_reg_weight=0.2,
    )
    return loss, None


def of_set(make):
    """The robust loss of an uncertainty set over the margins of pairs; `make` takes the K of D, twice the batch."""
    return lambda size: robust.Robust(losses.MarginPair(), make(2 * size.batch))


def with_proxies(loss):
    return lambda size: loss(num_classes=size.classes, embedding_size=size.width)


PAIR = [
    Case(
        "contrastive",
        "pair",
        lambda size: losses.Contrastive(),
        lambda size: (their_losses.ContrastiveLoss(reducer=MeanReducer()), None),
    ),
    Case("contrastive_pair", "pair", lambda size: losses.ContrastivePair()),
    Case("margin_pair", "pair", lambda size: losses.MarginPair()),
    Case("binomial_pair", "pair", lambda size: losses.BinomialPair()),
    Case(
        "multi_similarity + its miner",
        "pair",
        lambda size: losses.MultiSimilarity(miner=miners.MultiSimilarity()),
        lambda size: (their_losses.MultiSimilarityLoss(beta=40), their_miners.MultiSimilarityMiner(epsilon=0.1)),
    ),
    Case("circle", "pair", lambda size: losses.Circle(), lambda size: (their_losses.CircleLoss(), None)),
    Case("sup_con", "pair", lambda size: losses.SupCon(), lambda size: (their_losses.SupConLoss(), None)),
    Case(
        "lifted_structure",
        "pair",
        lambda size: losses.LiftedStructure(),
        their_lifted,
    ),
    Case(
        "lifted_structure, theirs of Song et al.",
        "pair",
        lambda size: losses.LiftedStructure(),
        lambda size: (their_losses.LiftedStructureLoss(), None),
        "ours is the same as in the line without; theirs squares a hinge for each positive pair",
    ),
    Case("generalized_lifted", "pair", lambda size: losses.GeneralizedLifted(), their_generalized_lifted),
    Case(
        "n_pair",
        "pair",
        lambda size: losses.NPair(),
        lambda size: (their_losses.NPairsLoss(**squared_length()), None),
        "theirs takes one anchor a class, ours every sample",
    ),
    Case(
        "angular",
        "pair",
        lambda size: losses.Angular(),
        lambda size: (their_losses.AngularLoss(alpha=45), None),
        "theirs has no N-pair part, and all positives where ours draws one",
    ),
    Case(
        "histogram",
        "pair",
        lambda size: losses.Histogram(),
        lambda size: (their_losses.HistogramLoss(n_bins=64), None),
    ),
    Case("hap2s", "pair", lambda size: losses.HAP2S()),
    Case(
        "smooth_ap",
        "pair",
        lambda size: losses.SmoothAP(),
        lambda size: (their_losses.SmoothAPLoss(), None),
        "theirs takes the count of classes for that of samples a class",
    ),
    Case("top_k_precision", "pair", lambda size: losses.TopKPrecision()),
]
ROBUST = [
    Case("robust: mean", "pair", of_set(lambda k: robust.Mean())),
    Case("robust: max", "pair", of_set(lambda k: robust.Max())),
    Case("robust: top_k", "pair", of_set(robust.TopK)),
    Case("robust: top_k_balanced", "pair", of_set(robust.TopKBalanced)),
    Case("robust: kl", "pair", of_set(lambda k: robust.KL(0.1))),
    Case("robust: kl, sampled", "pair", of_set(lambda k: robust.KL(0.1, samples=k))),
    Case("robust: chi_square", "pair", of_set(lambda k: robust.ChiSquare(0.5))),
    Case("robust: grouped_kl", "pair", of_set(lambda k: robust.GroupedKL())),
]
MINED = [
    Case(
        "margin + distance",
        "mined",
        lambda size: losses.Margin(miner=distance()),
        lambda size: (their_losses.MarginLoss(margin=0.2, beta=1.2), their_distance()),
    ),
    Case("margin + rho_distance", "mined", lambda size: losses.Margin(miner=miners.RhoDistance())),
    Case(
        "contrastive + distance",
        "mined",
        lambda size: losses.Contrastive(miner=distance()),
        lambda size: (their_losses.ContrastiveLoss(reducer=MeanReducer()), their_distance()),
    ),
    Case(
        "triplet + distance",
        "mined",
        lambda size: losses.Triplet(miner=distance()),
        lambda size: (their_triplet(), their_distance()),
    ),
    Case(
        "triplet + semi_hard",
        "mined",
        lambda size: losses.Triplet(miner=miners.SemiHard()),
        lambda size: (their_triplet(), their_miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard")),
        "theirs takes all semi-hard triplets, ours one an anchor",
    ),
    Case("triplet + soft_hard", "mined", lambda size: losses.Triplet(miner=miners.SoftHard())),
    Case(
        "triplet + hard",
        "mined",
        lambda size: losses.Triplet(miner=miners.Hard()),
        lambda size: (their_triplet(), their_miners.BatchHardMiner()),
    ),
    Case(
        "triplet + random",
        "mined",
        lambda size: losses.Triplet(miner=miners.Random()),
        lambda size: (their_triplet(triplets_per_anchor=1), None),
    ),
    Case("triplet + rho_distance", "mined", lambda size: losses.Triplet(miner=miners.RhoDistance())),
    Case(
        "triplet, all triplets",
        "mined",
        lambda size: losses.Triplet(),
        lambda size: (their_triplet(), None),
    ),
    Case("snr + distance", "mined", lambda size: losses.SNR(miner=distance()), their_snr),
    Case("quadruplet + distance", "mined", lambda size: losses.Quadruplet(miner=distance())),
]
PROXY = [
    Case(
        "proxy_nca",
        "proxy",
        with_proxies(losses.ProxyNCA),
        lambda size: (their_losses.ProxyNCALoss(size.classes, size.width, softmax_scale=9), None),
        "theirs has the own proxy in the denominator too",
    ),
    Case(
        "proxy_anchor",
        "proxy",
        with_proxies(losses.ProxyAnchor),
        lambda size: (their_losses.ProxyAnchorLoss(size.classes, size.width, margin=0.1, alpha=32), None),
    ),
    Case(
        "normalized_softmax",
        "proxy",
        with_proxies(losses.NormalizedSoftmax),
        lambda size: (their_losses.NormalizedSoftmaxLoss(size.classes, size.width, temperature=0.05), None),
    ),
    Case(
        "arc_face",
        "proxy",
        with_proxies(losses.ArcFace),
        lambda size: (
            their_losses.ArcFaceLoss(size.classes, size.width, margin=math.degrees(0.5), scale=16),
            None,
        ),
    ),
    Case("soft_triple", "proxy", with_proxies(losses.SoftTriple), their_soft_triple),
]
MEMORY = [
    Case(
        "cross_batch_memory of contrastive",
        "memory",
        lambda size: losses.CrossBatchMemory(losses.Contrastive(), embedding_size=size.width, size=2 * size.batch),
        lambda size: (
            their_losses.CrossBatchMemory(
                their_losses.ContrastiveLoss(reducer=MeanReducer()), size.width, memory_size=2 * size.batch
            ),
            None,
        ),
        "a queue of 2 B, whose products the floor has not; theirs has no loss inside the batch",
    ),
]
CASES = PAIR + ROBUST + MINED + MEMORY + PROXY
