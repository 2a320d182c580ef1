"""DiVA: four heads for discriminative, class-shared, intra-class and sample-specific features."""

import inspect
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from unseen.core.checks import check_above, check_at_least, check_between, check_choice, check_count
from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, seeded, torch_generator
from unseen.core.registry import method
from unseen.losses.base import own_parameters_of
from unseen.methods.diva_queue import Queue, WeightAxis, weighted_info_nce
from unseen.methods.diva_triplets import SharedMode, intra_triplets, shared_triplets
from unseen.methods.objective import ForwardOutput, MethodInputs, Objective
from unseen.models import ConcatenatedHeads, Embedder
from unseen.pairs.functional import unit_vectors
from unseen.pairs.parameters import ParameterGroup

HEADS = ("discriminative", "shared", "intra", "self")
HIDDEN = 512
"""Width of the hidden layer of the networks that predict one head from another."""


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(context: FunctionCtx, values: Tensor) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(context: FunctionCtx, gradient: Tensor) -> Tensor:
        return -gradient


def reverse_gradient(values: Tensor) -> Tensor:
    """Identity with a negated gradient."""
    return _Reversed.apply(values)


def correlation(target: Tensor, source: Tensor, regressor: nn.Module) -> Tensor:
    """Mean square of target * regressor(source), with negated gradients for target and source.

    Minimizing its negative trains the regressor to find what source and target have in common, and the embeddings to
    lose it.
    """
    predicted = unit_vectors(regressor(reverse_gradient(source)))
    return (reverse_gradient(target) * predicted).square().mean()


@dataclass(frozen=True, kw_only=True)
class HeadOutput(ForwardOutput):
    """Embeddings, the output of each head for the first views, and the unit keys of the second views."""

    heads: tuple[Tensor, ...]
    keys: Tensor


class DiVAObjective(Objective):
    """The losses of the four heads, and their decorrelation."""

    views = 2

    def __init__(self, inputs: MethodInputs, settings: "DiVA") -> None:
        size = inputs.model.width // len(HEADS)
        super().__init__(inputs.model, inputs.new_loss(size))
        if "ref_emb" not in inspect.signature(self.loss.forward).parameters:
            raise ConfigError(
                "diva mines its own triplets and needs a loss over pairs or tuples",
                got=type(self.loss).__name__,
                hint="Use --loss margin --miner distance.",
            )
        self.settings = settings
        self.shared_loss, self.intra_loss = inputs.new_loss(size), inputs.new_loss(size)
        with seeded(derive(inputs.seed, "diva regressors")):
            self.regressors = nn.ModuleDict(
                {name: nn.Sequential(nn.Linear(size, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, size)) for name in HEADS[1:]}
            )
        self.key_model = deepcopy(inputs.model).requires_grad_(False)
        self.queue = Queue(settings.queue_size, size)

    def forward(self, inputs: Tensor, *, key: int) -> HeadOutput:
        """Heads of the first views, keys of the second views."""
        queries, others = inputs.chunk(2)
        head = _heads_of(self.model)
        heads = tuple(part.float() for part in head.outputs(self.model.backbone(queries)))
        with torch.no_grad():
            embeddings = head.concatenate(heads)
            # Shuffled, so that batch norm statistics do not identify a key (as in MoCo).
            order = torch.randperm(len(others), generator=torch_generator(derive(key, "shuffled"))).to(inputs.device)
            keys = _heads_of(self.key_model).outputs(self.key_model.backbone(others[order]))[HEADS.index("self")]
            keys = unit_vectors(keys.float())[order.argsort()]
        return HeadOutput(embeddings=embeddings, heads=heads, keys=keys)

    def value(self, output: ForwardOutput, labels: Tensor, *, key: int) -> Tensor:
        """The losses of the heads, minus their weighted correlations."""
        assert isinstance(output, HeadOutput)
        settings = self.settings
        discriminative, shared, intra, own = output.heads
        value = self.loss_of(discriminative, labels, key=key)
        shared_key, intra_key = derive(key, "shared"), derive(key, "intra")
        triplets = shared_triplets(shared.detach(), labels, shared_key, settings.shared_mining)
        value = value + settings.shared_weight * self.loss_of(
            shared, labels, key=shared_key, loss=self.shared_loss, triplets=triplets
        )
        value = value + settings.intra_weight * self.loss_of(
            intra, labels, key=intra_key, loss=self.intra_loss, triplets=intra_triplets(labels, intra_key)
        )
        unit = dict(zip(HEADS, map(unit_vectors, output.heads), strict=True))
        queue = self.queue.content().to(own)
        value = value + settings.self_weight * weighted_info_nce(
            unit["self"], output.keys, queue, temperature=settings.temperature, axis=settings.weight_axis
        )
        for name, regressor in self.regressors.items():
            value = value - settings.decorrelation * correlation(unit[HEADS[0]], unit[name], regressor)
        return value

    @torch.no_grad()
    def after_step(self, output: ForwardOutput, *, key: int) -> None:
        """Update the momentum model, then enqueue the keys."""
        assert isinstance(output, HeadOutput)
        for average, parameter in zip(self.key_model.parameters(), self.model.parameters(), strict=True):
            average.lerp_(parameter, 1 - self.settings.momentum)
        self.queue.put(output.keys)

    def own_parameters(self) -> list[ParameterGroup]:
        """The parameters of the three losses, and of the regressors, which train as the model does."""
        modules = (self.loss, self.shared_loss, self.intra_loss, self.regressors)
        return [group for module in modules for group in own_parameters_of(module)]


def _heads_of(model: Embedder) -> ConcatenatedHeads:
    assert isinstance(model.head, ConcatenatedHeads), "the head that the method declared"
    return model.head


@method("diva")
class DiVA:
    r"""Diverse feature aggregation: four decorrelated heads trained on class, shared, intra-class and sample tasks.

    .. math:: L(e^d, y) + a_s L_s(e^s, T_s) + a_i L_i(e^i, T_i) + a_q Q(e^q)
              - \rho \sum_{k \in \{s, i, q\}} c(e^d, e^k), \qquad c(e, e') = \mathrm{mean}\, (e \odot r(e'))^2

    ======================  ====================================================================================
    e^d, e^s, e^i, e^q      the heads, each a fourth of the embedding: discriminative, shared, intra, self
    L, L_s, L_i             the loss of the run, each with its own parameters
    T_s                     triplets of three different classes, by ``shared_mining``: "standard", "full" (by distance
                            weighting twice) or "random" (permuted labels, as in all published runs)
    T_i                     triplets of one class
    Q                       InfoNCE of each sample with its second view against a queue of earlier samples; keys come
                            from a momentum model and are weighted by the inverse density of their distances
    c                       what a network r can predict of one head from another: r is trained to increase it, the
                            heads, by reversed gradients, to decrease it
    rho                     ``decorrelation`` (>= 0); published: 1500 for CUB200-2011, 100 CARS196, 150 SOP, all with
                            heads of 128: c falls with the square of a head's width, so narrow heads need less
    a_s                     ``shared_weight`` (>= 0); published, for all three: 0.3, 0.15, 0.2
    a_i                     ``intra_weight`` (>= 0)
    a_q                     ``self_weight`` (>= 0)
    ``queue_size``          keys in the queue (>= 1): 30 batches of 112; published for SOP: 70 batches
    ``momentum``            of the momentum model (0 to 1)
    ``temperature``         of Q (> 0)
    ``weight_axis``         weights of keys sum to 1 for each query ("queue"), or for each key ("queries"), as in
                            the authors' first release
    ``head_weights``        of the discriminative head and of each other one at evaluation (> 0): 0.75, 1.25 for
                            CUB200-2011; 0.5, 1.5 for CARS196; 1, 1 for SOP
    ======================  ====================================================================================

    The evaluated embedding concatenates the normalized heads, each times its weight. For data with one view, such as
    cached features, the second view of a sample is the first.

    Empty:      T_s is empty without three classes, T_i without two samples of a class; Q is 0 with an empty queue
    Reference:  Milbich et al., DiVA: Diverse Visual Feature Aggregation for Deep Metric Learning, ECCV 2020,
                arXiv:2004.13458
    Differs:    the queue starts empty; T_i are distinct where a class has three samples; c is a mean over coordinates,
                as in the authors' code, where the paper has a sum
    Raises:     ConfigError if four does not divide the embedding size, and for a loss that takes no tuples
    """

    def __init__(
        self,
        *,
        decorrelation: float = 1500.0,
        shared_weight: float = 0.3,
        intra_weight: float = 0.3,
        self_weight: float = 0.3,
        shared_mining: SharedMode = "standard",
        queue_size: int = 3360,
        momentum: float = 0.9,
        temperature: float = 0.01,
        weight_axis: WeightAxis = "queue",
        head_weights: Sequence[float] = (0.75, 1.25),
    ) -> None:
        check_at_least("DiVA", "decorrelation", decorrelation, 0)
        check_at_least("DiVA", "shared_weight", shared_weight, 0)
        check_at_least("DiVA", "intra_weight", intra_weight, 0)
        check_at_least("DiVA", "self_weight", self_weight, 0)
        check_choice("DiVA", "shared_mining", shared_mining, get_args(SharedMode))
        check_count("DiVA", "queue_size", queue_size)
        check_between("DiVA", "momentum", momentum, 0, 1)
        check_above("DiVA", "temperature", temperature, 0)
        check_choice("DiVA", "weight_axis", weight_axis, get_args(WeightAxis))
        if len(head_weights) != 2:
            raise ConfigError("DiVA: head_weights must be two numbers, for the discriminative head and for the others")
        for weight in head_weights:
            check_above("DiVA", "head_weights", weight, 0)
        self.decorrelation, self.shared_weight, self.intra_weight = decorrelation, shared_weight, intra_weight
        self.self_weight, self.shared_mining, self.queue_size = self_weight, shared_mining, queue_size
        self.momentum, self.temperature, self.weight_axis = momentum, temperature, weight_axis
        self.head_weights = tuple(head_weights)

    def head(self, width: int, embedding_size: int | None) -> nn.Module:
        """Four linear heads, each a fourth of the embedding."""
        if embedding_size is None or embedding_size % len(HEADS):
            raise ConfigError(
                "diva: the embedding size must be a multiple of four, one part per head",
                got=embedding_size,
                hint="Use --embedding-size 512.",
            )
        first, others = self.head_weights
        return ConcatenatedHeads(width, embedding_size, weights=(first, *[others] * (len(HEADS) - 1)))

    def build(self, inputs: MethodInputs) -> Objective:
        """Build the objective of a run."""
        return DiVAObjective(inputs, self)
