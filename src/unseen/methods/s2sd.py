"""S2SD: wider embeddings, trained beside the one that is used, teach it their similarities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax

from unseen.core.checks import check_above, check_at_least, check_count
from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, seeded
from unseen.core.registry import method
from unseen.losses.base import own_parameters_of
from unseen.methods.objective import ForwardOutput, MethodInputs, Objective, WithFeatures
from unseen.models import linear_head
from unseen.pairs.functional import inner_products, unit_vectors


def similarities(rows: Tensor) -> Tensor:
    """Cosine similarities of all rows, in at least float32."""
    unit = unit_vectors(rows.to(torch.promote_types(rows.dtype, torch.float32)))
    return inner_products(unit, unit)


def distillation(source: Tensor, target: Tensor, temperature: float) -> Tensor:
    """How far the rows of similarities are, as distributions, from those of a target that learns nothing.

    T^2 / n sum_i KL(softmax(target_i / T) || softmax(source_i / T)), over all columns with the row's own.
    """
    taught = log_softmax(target.detach() / temperature, dim=1)
    learnt = log_softmax(source / temperature, dim=1)
    return temperature**2 * kl_div(learnt, taught, reduction="batchmean", log_target=True)


@dataclass(frozen=True, kw_only=True)
class Branched(WithFeatures):
    """Embeddings, features, and the embeddings of the wider branches."""

    targets: list[Tensor]


class S2SDObjective(Objective):
    """The loss on the embedding and on wider branches, and what the branches teach the embedding."""

    steps: Tensor

    def __init__(self, ground: MethodInputs, settings: "S2SD") -> None:
        super().__init__(ground.model, ground.new_loss(ground.model.width))
        self.temperature, self.weight = settings.temperature, settings.weight
        self.feature_weight, self.delay = settings.feature_weight, settings.delay
        width = ground.model.backbone.width
        with seeded(derive(ground.seed, "s2sd branches")):
            self.branches = nn.ModuleList(
                nn.Sequential(nn.Linear(width, size), nn.ReLU(), nn.Linear(size, size)) for size in settings.targets
            )
        self.target_losses = nn.ModuleList(ground.new_loss(size) for size in settings.targets)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs: Tensor, *, key: int) -> Branched:
        """Embeddings, features and the branches' embeddings."""
        passed = self.with_features(inputs)
        targets = [branch(passed.features) for branch in self.branches]
        return Branched(embeddings=passed.embeddings, features=passed.features, targets=targets)

    def value(self, passed: ForwardOutput, labels: Tensor, *, key: int) -> Tensor:
        """The losses of all embeddings, and the distillation into the one that is used."""
        assert isinstance(passed, Branched)
        learnt = similarities(passed.embeddings)
        count = len(passed.targets)
        value = self.loss_of(passed.embeddings, labels, key=key) / 2
        for number, (target, loss) in enumerate(zip(passed.targets, self.target_losses, strict=True)):
            of_target = self.loss_of(target, labels, key=derive(key, "s2sd", number), loss=loss)
            taught = distillation(learnt, similarities(target), self.temperature)
            value = value + (of_target / 2 + self.weight * taught) / count
        if self.feature_weight > 0 and self.steps >= self.delay:
            pooled = similarities(passed.features.detach())
            value = value + self.feature_weight * distillation(learnt, pooled, self.temperature)
        return value

    def after_step(self, passed: ForwardOutput, *, key: int) -> None:
        """Count the step, for the delay."""
        self.steps += 1

    def own_parameters(self) -> list[dict[str, Any]]:
        """Those of all losses, and the branches', which train as the model does."""
        groups = [group for loss in (self.loss, *self.target_losses) for group in own_parameters_of(loss)]
        return [*groups, {"params": list(self.branches.parameters()), "lr": None, "weight_decay": None}]


@method("s2sd")
class S2SD:
    r"""The loss on the embedding and on wider ones beside it, whose similarities it learns.

    .. math:: \tfrac12 \Bigl[L(f, y) + \tfrac1m \sum_t L_t(g_t, y)\Bigr] + \tfrac{w}{m} \sum_t K(g_t, f)
              + w_f\, K(h, f), \qquad
              K(g, f) = \tfrac{T^2}{n} \sum_i \mathrm{KL}\bigl(\sigma(S^g_i / T) \,\|\, \sigma(S^f_i / T)\bigr)

    ==================  ========================================================================================
    f                   the embedding that is used
    h                   the pooled features that it is made of
    g_t                 wider embeddings of the same features, by two layers each
    m                   ``targets``: the widths of the g_t, one (DSD) or several (MSD)
    L, L_t              the loss of the run, each with parameters and tuples of its own
    S_i                 cosine similarities of row i with all rows; sigma is the softmax over them
    T                   ``temperature`` (> 0)
    w                   ``weight`` of the distillation from wider embeddings (>= 0)
    w_f                 ``feature_weight`` of that from pooled features (>= 0); above 0 this is MSDF
    ``delay``           steps before the pooled features teach (>= 0)
    ==================  ========================================================================================

    What teaches learns nothing by it. At evaluation only f is left.

    Empty:      distillation needs no labels and counts in every batch
    Reference:  Roth et al., Simultaneous Similarity-based Self-Distillation for Deep Metric Learning, ICML 2021,
                arXiv:2009.08348
    Differs:    nothing; published runs use w_f = 50 (SOP: 5) with a delay of 1000 steps. Pooling by the sum of mean
                and maximum (MSDA, MSDFA) is not offered
    """

    def __init__(
        self,
        *,
        targets: Sequence[int] = (512, 1024, 1536, 2048),
        weight: float = 50.0,
        feature_weight: float = 50.0,
        temperature: float = 1.0,
        delay: int = 1000,
    ) -> None:
        if not targets:
            raise ConfigError("S2SD: targets must hold at least one width", hint="Use s2sd:targets=[1024].")
        for size in targets:
            check_count("S2SD", "targets", size)
        check_at_least("S2SD", "weight", weight, 0)
        check_at_least("S2SD", "feature_weight", feature_weight, 0)
        check_above("S2SD", "temperature", temperature, 0)
        check_count("S2SD", "delay", delay, at_least=0)
        self.targets, self.weight, self.feature_weight = tuple(targets), weight, feature_weight
        self.temperature, self.delay = temperature, delay

    def head(self, width: int, embedding_size: int | None) -> nn.Module:
        """A linear head."""
        return linear_head(width, embedding_size)

    def build(self, ground: MethodInputs) -> Objective:
        """The objective of a run."""
        return S2SDObjective(ground, self)
