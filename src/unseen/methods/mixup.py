"""Manifold mixup: pairs of items are interpolated at a random layer, and so are the losses of their labels."""

from dataclasses import dataclass

import torch
from torch import Tensor

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
    """How a batch is mixed: row i becomes share * row i + (1 - share) * row order[i], at one of the mixing points."""

    share: float
    order: Tensor
    point: int

    def apply(self, rows: Tensor) -> Tensor:
        """The mixed rows."""
        return rows.mul(self.share).add_(rows.index_select(0, self.order.to(rows.device)), alpha=1 - self.share)


def draw_mix(size: int, key: int, *, alpha: float, points: int) -> Mix:
    """A share from Beta(alpha, alpha), a permutation and one of the mixing points, all from the key."""
    generator = numpy_generator(derive(key, "mixup"))
    share, order = float(generator.beta(alpha, alpha)), generator.permutation(size)
    return Mix(share, torch.from_numpy(order), int(generator.integers(points)))


def stage_starts(steps: list[Step], most: int) -> list[int]:
    """The numbers of the steps at which the first stages of a backbone begin, without step 0.

    The steps of a stage share a name ("layer1.0", "layer1.1"); where all share one name ("blocks.0", "blocks.1"),
    each step is a stage.

    >>> from torch import nn
    >>> names = ["stem", "layer1.0", "layer1.1", "layer2.0", "pool"]
    >>> stage_starts([(name, nn.Identity()) for name in names], 3)
    [1, 3]
    >>> stage_starts([(name, nn.Identity()) for name in ("blocks.0", "blocks.1", "blocks.2", "flatten")], 3)
    [1, 2]
    """
    dotted = [(name.partition(".")[0], number) for number, (name, _) in enumerate(steps) if "." in name]
    first = {stage: number for stage, number in reversed(dotted)}
    starts = sorted(first.values()) if len(first) > 1 else [number for _, number in dotted]
    return [number for number in starts if number > 0][:most]


@dataclass(frozen=True, kw_only=True)
class MixedOutput(ForwardOutput):
    """Embeddings of mixed items, and how they were mixed."""

    mix: Mix


class MixupObjective(Objective):
    """The loss of mixed items under the labels of both."""

    embeds = False

    def __init__(self, inputs: MethodInputs, settings: "ManifoldMixup") -> None:
        super().__init__(inputs.model, inputs.new_loss(inputs.model.width))
        self.alpha = settings.alpha
        # A plain list: these modules are registered once, in the model.
        self._steps: list[Step] = []
        self.points = [0]
        if settings.stages > 0 and any(True for _ in inputs.model.backbone.parameters()):
            self._steps = sequential_steps(inputs.model.backbone, inputs.example())
            if not self._steps:
                raise ConfigError(
                    f"mixup cannot mix inside {type(inputs.model.backbone).__name__}, whose steps are not sequential",
                    hint="Use --method mixup:stages=0, which mixes the inputs.",
                )
            self.points += stage_starts(self._steps, settings.stages)

    def forward(self, inputs: Tensor, *, key: int) -> MixedOutput:
        """Embeddings of the batch, mixed at a random point."""
        mix = draw_mix(len(inputs), key, alpha=self.alpha, points=len(self.points))
        return self.forward_mixed(mix, inputs)

    def forward_mixed(self, mix: Mix, inputs: Tensor) -> MixedOutput:
        """Embeddings of the batch under a mix."""
        first_mixed = self.points[mix.point]
        if first_mixed == 0:
            return MixedOutput(embeddings=self.model(mix.apply(inputs)), mix=mix)
        hidden = channels_last(inputs)
        for number, (_, step) in enumerate(self._steps):
            hidden = step(mix.apply(hidden) if number == first_mixed else hidden)
        return MixedOutput(embeddings=self.model.head(hidden), mix=mix)

    def value(self, output: ForwardOutput, labels: Tensor, *, key: int) -> Tensor:
        """The losses under both labellings, weighted by their shares; tuples are mined for each labelling."""
        assert isinstance(output, MixedOutput)
        mix = output.mix
        first = self.loss_of(output.embeddings, labels, key=key)
        other_labels = labels.index_select(0, mix.order.to(labels.device))
        other = self.loss_of(output.embeddings, other_labels, key=derive(key, "labels of the other side"))
        return mix.share * first + (1 - mix.share) * other


@method("mixup")
class ManifoldMixup:
    r"""Manifold mixup: hidden states of item pairs are interpolated, and so are the losses of their labels.

    .. math:: \lambda\, L(\tilde f, y) + (1 - \lambda)\, L(\tilde f, y_\pi), \qquad
              \tilde h = \lambda h + (1 - \lambda) h_\pi, \quad \lambda \sim \mathrm{Beta}(\alpha, \alpha)

    ===========  ===============================================================================================
    h            the inputs, or the activations before a stage; which of them is drawn for each batch
    pi           a random permutation of the batch
    f            the embeddings of the mixed h
    L            the loss of the run; tuples are mined for each labelling
    alpha        shape of the Beta distribution (> 0)
    ``stages``   stages of the backbone before which items may be mixed, besides the inputs (>= 0)
    ===========  ===============================================================================================

    For losses that are linear in their targets, such as softmax, this is the cross-entropy with mixed targets. Cached
    activations are mixed before the stages above the cut, cached features directly.

    Empty:      as for the loss
    Reference:  Verma et al., Manifold Mixup: Better Representations by Interpolating Hidden States, ICML 2019,
                arXiv:1806.05236; for rankings Roth et al., arXiv:2002.08473
    Differs:    the ranking form follows eq. 31 of Roth et al., whose code is not published
    Raises:     ConfigError for a backbone whose steps are not sequential, and for a loss with a memory
    """

    head = staticmethod(linear_head)

    def __init__(self, *, alpha: float = 2.0, stages: int = 3) -> None:
        check_above("ManifoldMixup", "alpha", alpha, 0)
        check_count("ManifoldMixup", "stages", stages, at_least=0)
        self.alpha, self.stages = alpha, stages

    def build(self, inputs: MethodInputs) -> Objective:
        """Build the objective of a run."""
        objective = MixupObjective(inputs, self)
        if isinstance(objective.loss, CrossBatchMemory):
            raise ConfigError(
                "mixup cannot mix the items of a memory, which have one label each",
                got="cross_batch_memory",
                hint="Use the loss inside it.",
            )
        return objective
