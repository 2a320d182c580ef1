"""S2SD: self-distillation of similarities from wider embeddings, trained side by side, into the one that is used."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax

from unseen.core.checks import check_above, check_at_least, check_count
from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, seeded
from unseen.core.registry import method
from unseen.losses.base import own_parameters_of
from unseen.methods.objective import FeatureOutput, ForwardOutput, MethodInputs, Objective
from unseen.models import linear_head
from unseen.pairs.functional import inner_products, unit_vectors
from unseen.pairs.parameters import ParameterGroup


def similarities(rows: Tensor) -> Tensor:
    """Cosine similarities of all rows, in at least float32."""
    unit = unit_vectors(rows.to(torch.promote_types(rows.dtype, torch.float32)))
    return inner_products(unit, unit)


def distillation(source: Tensor, target: Tensor, temperature: float) -> Tensor:
    """KL divergence from target to source rows of similarities, as distributions; no gradient for the target.

    T^2 / n sum_i KL(softmax(target_i / T) || softmax(source_i / T)), over all columns, the diagonal included.
    """
    teacher = log_softmax(target.detach() / temperature, dim=1)
    student = log_softmax(source / temperature, dim=1)
    return temperature**2 * kl_div(student, teacher, reduction="batchmean", log_target=True)


@dataclass(frozen=True, kw_only=True)
class BranchOutput(FeatureOutput):
    """Embeddings, features, and the embeddings of the wider branches."""

    targets: list[Tensor]


class S2SDObjective(Objective):
    """The loss on the embedding and on wider branches, and the distillation from the branches."""

    steps: Tensor

    def __init__(self, inputs: MethodInputs, settings: "S2SD") -> None:
        super().__init__(inputs.model, inputs.new_loss(inputs.model.width))
        self.settings = settings
        width = inputs.model.backbone.width
        with seeded(derive(inputs.seed, "s2sd branches")):
            self.branches = nn.ModuleList(
                nn.Sequential(nn.Linear(width, size), nn.ReLU(), nn.Linear(size, size)) for size in settings.targets
            )
        self.target_losses = nn.ModuleList(inputs.new_loss(size) for size in settings.targets)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs: Tensor, *, key: int) -> BranchOutput:
        """Embeddings, features and the branches' embeddings."""
        output = self.forward_features(inputs)
        return BranchOutput(**vars(output), targets=[branch(output.features) for branch in self.branches])

    def value(self, output: ForwardOutput, labels: Tensor, *, key: int) -> Tensor:
        """The losses of all embeddings, and the distillation into the one that is used at evaluation."""
        assert isinstance(output, BranchOutput)
        settings, student, count = self.settings, similarities(output.embeddings), len(output.targets)
        value = self.loss_of(output.embeddings, labels, key=key) / 2
        for number, (target, loss) in enumerate(zip(output.targets, self.target_losses, strict=True)):
            target_loss = self.loss_of(target, labels, key=derive(key, "s2sd", number), loss=loss)
            distilled = distillation(student, similarities(target), settings.temperature)
            value = value + (target_loss / 2 + settings.weight * distilled) / count
        if settings.feature_weight > 0 and self.steps >= settings.delay:
            pooled = similarities(output.features.detach())
            value = value + settings.feature_weight * distillation(student, pooled, settings.temperature)
        return value

    def after_step(self, output: ForwardOutput, *, key: int) -> None:
        """Count the step, for the delay."""
        self.steps += 1

    def own_parameters(self) -> list[ParameterGroup]:
        """The parameters of all losses, and of the branches, which train as the model does."""
        modules = (self.loss, *self.target_losses, self.branches)
        return [group for module in modules for group in own_parameters_of(module)]


@method("s2sd")
class S2SD:
    r"""Similarity-based self-distillation: wider auxiliary embeddings teach the embedding their similarities.

    .. math:: \tfrac12 \Bigl[L(f, y) + \tfrac1m \sum_t L_t(g_t, y)\Bigr] + \tfrac{w}{m} \sum_t K(g_t, f)
              + w_f\, K(h, f), \qquad
              K(g, f) = \tfrac{T^2}{n} \sum_i \mathrm{KL}\bigl(\sigma(S^g_i / T) \,\|\, \sigma(S^f_i / T)\bigr)

    ==================  ========================================================================================
    f                   the embedding that is evaluated
    h                   the pooled features below it
    g_t                 wider embeddings of the same features, by a network of two layers each
    m                   number of ``targets``, the widths of the g_t: one (DSD) or several (MSD)
    L, L_t              the loss of the run, each with its own parameters and tuples
    S_i                 cosine similarities of row i with all rows; sigma is the softmax over them
    T                   ``temperature`` (> 0)
    w                   ``weight`` of the distillation from wider embeddings (>= 0)
    w_f                 ``feature_weight`` of the distillation from pooled features (>= 0); above 0 this is MSDF
    ``delay``           steps before the distillation from pooled features starts (>= 0)
    ==================  ========================================================================================

    Distillation has no gradient for its targets. At evaluation only f is used.

    Empty:      distillation needs no labels: it is part of the value of every batch
    Reference:  Roth et al., Simultaneous Similarity-based Self-Distillation for Deep Metric Learning, ICML 2021,
                arXiv:2009.08348
    Differs:    nothing; published runs use w_f = 50 (SOP: 5) with a delay of 1000 steps. Pooling by the sum of mean
                and maximum (MSDA, MSDFA) is not offered
    """

    head = staticmethod(linear_head)

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

    def build(self, inputs: MethodInputs) -> Objective:
        """Build the objective of a run."""
        return S2SDObjective(inputs, self)
