"""DiVA: four heads that learn what tells classes apart, what they share, what varies inside them, and each sample."""

import inspect
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unseen.core.checks import check_above, check_at_least, check_between, check_choice, check_count
from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, seeded, torch_generator
from unseen.core.registry import method
from unseen.losses.base import own_parameters_of
from unseen.methods.diva_queue import WEIGHT_AXES, Queue, WeightAxis, own_key_among
from unseen.methods.diva_triplets import SHARED_MODES, SharedMode, intra_triplets, shared_triplets
from unseen.methods.objective import ForwardOutput, MethodInputs, Objective
from unseen.models import ConcatenatedHeads
from unseen.pairs.functional import unit_vectors

HEADS = ("discriminative", "shared", "intra", "self")
HIDDEN = 512
"""Width of the hidden layer of what the decorrelation predicts with."""


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return -gradient


def reverse_gradient(values: Tensor) -> Tensor:
    """The values as they are, with the opposite gradient."""
    return _Reversed.apply(values)


def correlation(target: Tensor, source: Tensor, regressor: nn.Module) -> Tensor:
    """Mean square of the products of a target's coordinates with those that a regressor makes of a source.

    Its gradient is that of the mean for the regressor, and the opposite for target and source: minus this, minimised,
    lets the regressor find what they have in common and the embeddings lose it.
    """
    predicted = unit_vectors(regressor(reverse_gradient(source)))
    return (reverse_gradient(target) * predicted).square().mean()


@dataclass(frozen=True, kw_only=True)
class HeadOutput(ForwardOutput):
    """Embeddings, what each head made of the first views, and the keys of the second ones at length 1."""

    heads: tuple[Tensor, ...]
    keys: Tensor


class DiVAObjective(Objective):
    """The losses of four heads, and what keeps them apart."""

    views = 2

    def __init__(self, ground: MethodInputs, settings: "DiVA") -> None:
        size = ground.model.width // len(HEADS)
        super().__init__(ground.model, ground.new_loss(size))
        if "ref_emb" not in inspect.signature(self.loss.forward).parameters:
            raise ConfigError(
                "diva mines triplets of its own and needs a loss over pairs or tuples",
                got=type(self.loss).__name__,
                hint="Use --loss margin --miner distance.",
            )
        self.settings = settings
        self.shared_loss, self.intra_loss = ground.new_loss(size), ground.new_loss(size)
        with seeded(derive(ground.seed, "diva regressors")):
            self.regressors = nn.ModuleDict(
                {name: nn.Sequential(nn.Linear(size, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, size)) for name in HEADS[1:]}
            )
        self.key_model = deepcopy(ground.model).requires_grad_(False)
        self.queue = Queue(settings.queue_size, size)

    def forward(self, inputs: Tensor, *, key: int) -> HeadOutput:
        """Heads of the first views, keys of the second ones."""
        queries, others = inputs.chunk(2)
        heads = tuple(part.float() for part in self._head.parts(self.model.backbone(queries)))
        with torch.no_grad():
            embeddings = self._head.joined(heads)
            # Shuffled, so that batch norm does not give a key away by the company it is in.
            order = torch.randperm(len(others), generator=torch_generator(derive(key, "shuffled"))).to(inputs.device)
            keys = self.key_model.head.parts(self.key_model.backbone(others[order]))[HEADS.index("self")]
            keys = unit_vectors(keys.float())[order.argsort()]
        return HeadOutput(embeddings=embeddings, heads=heads, keys=keys)

    def value(self, passed: ForwardOutput, labels: Tensor, *, key: int) -> Tensor:
        """The losses of the heads, and minus their correlations."""
        assert isinstance(passed, HeadOutput)
        settings = self.settings
        discriminative, shared, intra, own = passed.heads
        value = self.loss_of(discriminative, labels, key=key)
        shared_key, intra_key = derive(key, "shared"), derive(key, "intra")
        triplets = shared_triplets(shared.detach(), labels, shared_key, settings.shared_mining)
        value = value + settings.shared_weight * self.loss_of(
            shared, labels, key=shared_key, loss=self.shared_loss, triplets=triplets
        )
        value = value + settings.intra_weight * self.loss_of(
            intra, labels, key=intra_key, loss=self.intra_loss, triplets=intra_triplets(labels, intra_key)
        )
        unit = dict(zip(HEADS, map(unit_vectors, passed.heads), strict=True))
        value = value + settings.self_weight * own_key_among(
            unit["self"],
            passed.keys,
            self.queue.content().to(own),
            temperature=settings.temperature,
            axis=settings.weight_axis,
        )
        for name, regressor in self.regressors.items():
            value = value - settings.decorrelation * correlation(unit[HEADS[0]], unit[name], regressor)
        return value

    @torch.no_grad()
    def after_step(self, passed: ForwardOutput, *, key: int) -> None:
        """Move the key model towards the model, then put the keys in the queue."""
        assert isinstance(passed, HeadOutput)
        for average, parameter in zip(self.key_model.parameters(), self.model.parameters(), strict=True):
            average.lerp_(parameter, 1 - self.settings.momentum)
        self.queue.put(passed.keys)

    def own_parameters(self) -> list[dict[str, Any]]:
        """Those of the three losses, and the regressors', which train as the model does."""
        losses = (self.loss, self.shared_loss, self.intra_loss)
        groups = [group for loss in losses for group in own_parameters_of(loss)]
        return [*groups, {"params": list(self.regressors.parameters()), "lr": None, "weight_decay": None}]

    @property
    def _head(self) -> ConcatenatedHeads:
        assert isinstance(self.model.head, ConcatenatedHeads)
        return self.model.head


@method("diva")
class DiVA:
    r"""Four heads on shared features: for classes, across classes, inside classes and for single samples.

    .. math:: L(e^d, y) + a_s L_s(e^s, T_s) + a_i L_i(e^i, T_i) + a_q Q(e^q)
              - \rho \sum_{k \in \{s, i, q\}} c(e^d, e^k), \qquad c(e, e') = \mathrm{mean}\, (e \odot r(e'))^2

    ======================  ====================================================================================
    e^d, e^s, e^i, e^q      the heads, each a fourth of the embedding: discriminative, shared, intra, self
    L, L_s, L_i             the loss of the run, each with parameters of its own
    T_s                     triplets of three different classes, by ``shared_mining``: "standard", "full" (by distance
                            weighting twice) or "random" (permuted labels, as in all published runs)
    T_i                     triplets of one class
    Q                       cross-entropy of a second view of each sample among a queue of earlier ones; keys come
                            from a running average of the model and weigh by their distances
    c                       what a network r can predict of one head from another; r learns to raise it, the heads,
                            by reversed gradients, to lower it
    rho                     ``decorrelation`` (>= 0); published: 1500 for CUB200-2011, 100 CARS196, 150 SOP, all with
                            heads of 128: c falls with the square of a head's width, so narrow heads want a smaller one
    a_s                     ``shared_weight`` (>= 0); published, for all three: 0.3, 0.15, 0.2
    a_i                     ``intra_weight`` (>= 0)
    a_q                     ``self_weight`` (>= 0)
    ``queue_size``          keys in the queue (>= 1): 30 batches of 112; published for SOP: 70 batches
    ``momentum``            share of the running average that a step keeps (0 to 1)
    ``temperature``         of Q (> 0)
    ``weight_axis``         weights of keys sum to 1 for each query ("queue"), or for each key ("queries"), as in
                            the first upload of the authors
    ``head_weights``        of the discriminative head and of each other one at evaluation (> 0): 0.75, 1.25 for
                            CUB200-2011; 0.5, 1.5 for CARS196; 1, 1 for SOP
    ======================  ====================================================================================

    The evaluated embedding is the heads side by side, each at length 1 times its weight. Where data have one view,
    cached features among them, the second view of a sample is the first.

    Empty:      without three classes T_s is empty, without two samples of a class T_i is; an empty queue counts 0
    Reference:  Milbich et al., DiVA: Diverse Visual Feature Aggregation for Deep Metric Learning, ECCV 2020,
                arXiv:2004.13458
    Differs:    the queue begins empty; T_i are distinct where a class has three samples; the paper writes c with a
                sum over coordinates, its code and this with the mean
    Raises:     ConfigError for an embedding that four heads cannot share, and for a loss that takes no tuples
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
        for name, value in (
            ("decorrelation", decorrelation),
            ("shared_weight", shared_weight),
            ("intra_weight", intra_weight),
            ("self_weight", self_weight),
        ):
            check_at_least("DiVA", name, value, 0)
        check_choice("DiVA", "shared_mining", shared_mining, SHARED_MODES)
        check_count("DiVA", "queue_size", queue_size)
        check_between("DiVA", "momentum", momentum, 0, 1)
        check_above("DiVA", "temperature", temperature, 0)
        check_choice("DiVA", "weight_axis", weight_axis, WEIGHT_AXES)
        if len(head_weights) != 2:
            raise ConfigError("DiVA: head_weights must be two: of the discriminative head, of the others")
        for weight in head_weights:
            check_above("DiVA", "head_weights", weight, 0)
        self.decorrelation, self.shared_weight, self.intra_weight = decorrelation, shared_weight, intra_weight
        self.self_weight, self.shared_mining, self.queue_size = self_weight, shared_mining, queue_size
        self.momentum, self.temperature, self.weight_axis = momentum, temperature, weight_axis
        self.head_weights = tuple(head_weights)

    def head(self, width: int, embedding_size: int | None) -> nn.Module:
        """Four linear heads that share the embedding."""
        if embedding_size is None or embedding_size % len(HEADS):
            raise ConfigError(
                "diva: four heads share the embedding equally", got=embedding_size, hint="Use --embedding-size 512."
            )
        first, others = self.head_weights
        return ConcatenatedHeads(width, embedding_size, weights=(first, *[others] * (len(HEADS) - 1)))

    def build(self, ground: MethodInputs) -> Objective:
        """The objective of a run."""
        return DiVAObjective(ground, self)
