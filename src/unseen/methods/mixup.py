"""Manifold mixup: pairs of items are mixed at a layer drawn for each batch, and so are their losses."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unseen.core.checks import check_above, check_count
from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, numpy_generator
from unseen.core.registry import method
from unseen.losses.cross_batch_memory import CrossBatchMemory
from unseen.methods.objective import ForwardOutput, MethodInputs, Objective
from unseen.models import channels_last, linear_head, sequential_steps
from unseen.models.split_backbone import Step


@dataclass(frozen=True)
class Mix:
    """How a batch is mixed: row i becomes `share` of itself and the rest of row `order[i]`, before a step."""

    share: float
    order: Tensor
    place: int

    def of(self, rows: Tensor) -> Tensor:
        """The mixed rows."""
        return rows.mul(self.share).add_(rows.index_select(0, self.order.to(rows.device)), alpha=1 - self.share)


def draw_mix(size: int, key: int, *, alpha: float, places: int) -> Mix:
    """A share from Beta(alpha, alpha), a permutation and one of the places, all from the key."""
    numbers = numpy_generator(derive(key, "mixup"))
    share, order, place = float(numbers.beta(alpha, alpha)), numbers.permutation(size), int(numbers.integers(places))
    return Mix(share, torch.from_numpy(order), place)


def stage_starts(steps: list[Step], most: int) -> list[int]:
    """The first steps of a backbone's first stages, those behind the very first step.

    A stage is what comes under one name ("layer1.0", "layer1.1"); where there is only one such name ("blocks.0",
    "blocks.1"), each of its steps is one.

    >>> names = ["stem", "layer1.0", "layer1.1", "layer2.0", "pool"]
    >>> stage_starts([(name, nn.Identity()) for name in names], 3)
    [1, 3]
    >>> stage_starts([(name, nn.Identity()) for name in ("blocks.0", "blocks.1", "blocks.2", "flatten")], 3)
    [1, 2]
    """
    dotted = [(name.partition(".")[0], place) for place, (name, _) in enumerate(steps) if "." in name]
    first = {stage: place for stage, place in reversed(dotted)}
    starts = sorted(first.values()) if len(first) > 1 else [place for _, place in dotted]
    return [place for place in starts if place > 0][:most]


@dataclass(frozen=True, kw_only=True)
class Mixed(ForwardOutput):
    """Embeddings of mixed items, and how they were mixed."""

    mix: Mix


class MixupObjective(Objective):
    """The loss of mixed items under the labels of either side."""

    embeds = False

    def __init__(self, ground: MethodInputs, settings: "ManifoldMixup") -> None:
        super().__init__(ground.model, ground.new_loss(ground.model.width))
        self.alpha = settings.alpha
        # The model's own modules, in a plain list: they are registered once, in the model.
        self._steps: list[Step] = []
        self.places = [0]
        if settings.stages > 0 and any(True for _ in ground.model.backbone.parameters()):
            self._steps = sequential_steps(ground.model.backbone, ground.example())
            if not self._steps:
                raise ConfigError(
                    f"mixup cannot mix inside {type(ground.model.backbone).__name__}, whose steps do not run one after"
                    " the other",
                    hint="Use --method mixup:stages=0, which mixes the inputs.",
                )
            self.places += stage_starts(self._steps, settings.stages)

    def forward(self, inputs: Tensor, *, key: int) -> Mixed:
        """Embeddings of the batch, mixed before a step that is drawn."""
        mix = draw_mix(len(inputs), key, alpha=self.alpha, places=len(self.places))
        return self.mixed_by(mix, inputs)

    def mixed_by(self, mix: Mix, inputs: Tensor) -> Mixed:
        """Embeddings of the batch under a given mix."""
        place = self.places[mix.place]
        if place == 0:
            return Mixed(embeddings=self.model(mix.of(inputs)), mix=mix)
        hidden = channels_last(inputs)
        for number, (_, step) in enumerate(self._steps):
            hidden = step(mix.of(hidden) if number == place else hidden)
        return Mixed(embeddings=self.model.head(hidden), mix=mix)

    def value(self, passed: ForwardOutput, labels: Tensor, *, key: int) -> Tensor:
        """The two losses by their shares; tuples are mined for each labelling by itself."""
        assert isinstance(passed, Mixed)
        mix = passed.mix
        first = self.loss_of(passed.embeddings, labels, key=key)
        other_labels = labels.index_select(0, mix.order.to(labels.device))
        other = self.loss_of(passed.embeddings, other_labels, key=derive(key, "labels of the other side"))
        return mix.share * first + (1 - mix.share) * other


@method("mixup")
class ManifoldMixup:
    r"""The loss of items that are mixed in pairs, inside the network, under the labels of both.

    .. math:: \lambda\, L(\tilde f, y) + (1 - \lambda)\, L(\tilde f, y_\pi), \qquad
              \tilde h = \lambda h + (1 - \lambda) h_\pi, \quad \lambda \sim \mathrm{Beta}(\alpha, \alpha)

    ===========  ===============================================================================================
    h            the inputs, or what the backbone has made of them before a stage; which, is drawn for each batch
    pi           a permutation of the batch, drawn for each batch
    f            the embeddings that follow from the mixed h
    L            the loss of the run; tuples are mined for each labelling by itself
    alpha        shape of the Beta distribution (> 0)
    ``stages``   stages of the backbone before which may be mixed, beside the inputs (>= 0)
    ===========  ===============================================================================================

    For losses that are linear in their targets, such as softmax, this is the cross-entropy of targets mixed in the
    same shares. Cached activations are mixed before the stages above the cut, cached features as they are.

    Empty:      as the loss says
    Reference:  Verma et al., Manifold Mixup: Better Representations by Interpolating Hidden States, ICML 2019,
                arXiv:1806.05236; for rankings Roth et al., arXiv:2002.08473
    Differs:    the ranking form is written from eq. 31 of Roth et al., whose code is not published
    Raises:     ConfigError for a backbone whose steps do not run one after the other, and for a loss with a memory
    """

    def __init__(self, *, alpha: float = 2.0, stages: int = 3) -> None:
        check_above("ManifoldMixup", "alpha", alpha, 0)
        check_count("ManifoldMixup", "stages", stages, at_least=0)
        self.alpha, self.stages = alpha, stages

    def head(self, width: int, embedding_size: int | None) -> nn.Module:
        """A linear head."""
        return linear_head(width, embedding_size)

    def build(self, ground: MethodInputs) -> Objective:
        """The objective of a run."""
        objective = MixupObjective(ground, self)
        if isinstance(objective.loss, CrossBatchMemory):
            raise ConfigError(
                "mixup cannot mix what a memory holds: its items have one label each",
                got="cross_batch_memory",
                hint="Use the loss inside it.",
            )
        return objective
