"""Uniform prior: adversarial regularization that makes features look like uniform noise."""

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import binary_cross_entropy_with_logits

from unseen.core.checks import check_above, check_at_least, check_count
from unseen.core.errors import ConfigError
from unseen.core.randomness import derive, seeded, torch_generator
from unseen.core.registry import method
from unseen.methods.objective import FeatureOutput, ForwardOutput, MethodInputs, Objective
from unseen.models import linear_head

BETAS = (0.5, 0.999)
"""Betas of the discriminator's Adam, as in the authors' code."""


def in_chunks(features: Tensor, width: int) -> Tensor:
    """Features cut into rows of a width, in at least float32."""
    return features.reshape(-1, width).to(torch.promote_types(features.dtype, torch.float32))


def prior_loss(discriminator: nn.Module, rows: Tensor) -> Tensor:
    """Cross-entropy of the discriminator's "uniform" for rows of features; no gradient for the discriminator."""
    frozen = {name: parameter.detach() for name, parameter in discriminator.named_parameters()}
    logits = functional_call(discriminator, frozen, (rows,))
    return binary_cross_entropy_with_logits(logits, torch.ones_like(logits))


def discriminator_loss(discriminator: nn.Module, rows: Tensor, uniform: Tensor) -> Tensor:
    """Cross-entropy of telling uniform rows from rows of features; no gradient for the features."""
    real, fake = discriminator(uniform), discriminator(rows.detach())
    return binary_cross_entropy_with_logits(real, torch.ones_like(real)) + binary_cross_entropy_with_logits(
        fake, torch.zeros_like(fake)
    )


class UniformPriorObjective(Objective):
    """The loss and the prior; the discriminator has its own optimizer and steps after the model."""

    steps: Tensor

    def __init__(self, inputs: MethodInputs, settings: "UniformPrior") -> None:
        super().__init__(inputs.model, inputs.new_loss(inputs.model.width))
        self.settings = settings
        with seeded(derive(inputs.seed, "discriminator")):
            self.discriminator = nn.Sequential(
                nn.Linear(settings.chunk, settings.hidden),
                nn.ReLU(),
                nn.Linear(settings.hidden, settings.hidden),
                nn.ReLU(),
                nn.Linear(settings.hidden, 1),
            )
        self._optimizer = torch.optim.Adam(self.discriminator.parameters(), lr=settings.lr, betas=BETAS)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs: Tensor, *, key: int) -> FeatureOutput:
        """Embeddings and features."""
        return self.forward_features(inputs)

    def value(self, output: ForwardOutput, labels: Tensor, *, key: int) -> Tensor:
        """The loss and the weighted prior."""
        assert isinstance(output, FeatureOutput)
        prior = prior_loss(self.discriminator, in_chunks(output.features, self.settings.chunk))
        return self.loss_of(output.embeddings, labels, key=key) + self.settings.weight * prior

    def after_step(self, output: ForwardOutput, *, key: int) -> None:
        """Step the discriminator, at every `interval`-th step of the run."""
        assert isinstance(output, FeatureOutput)
        if self.steps % self.settings.interval == 0:
            rows = in_chunks(output.features.detach(), self.settings.chunk)
            generator = torch_generator(derive(key, "uniform prior"))
            uniform = torch.rand(rows.shape, generator=generator, dtype=rows.dtype).mul_(2).sub_(1).to(rows.device)
            discriminator_loss(self.discriminator, rows, uniform).backward()
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        self.steps += 1

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimizer of the discriminator."""
        return {"discriminator": self._optimizer}


@method("uniform_prior")
class UniformPrior:
    r"""The loss, and an adversarial prior that spreads pooled features uniformly.

    .. math:: L(f(x), y) - w\, E \log D(h(x)), \qquad
              \max_D\; E_{z \sim U(-1, 1)^c} \log D(z) + E \log\bigl(1 - D(h(x))\bigr)

    ==============  ============================================================================================
    f(x), L         embeddings of the batch, and the loss of the run
    h(x)            the backbone's pooled features, below the head, cut into rows of c numbers
    c               ``chunk`` (>= 1), which divides the width of the features
    D               the discriminator, of two hidden layers: rows of features against uniform rows
    w               ``weight`` (>= 0) of the prior; published: 0.2 for CUB200-2011 and CARS196, 0.02 for SOP
    ``hidden``      width of the layers of D (>= 1); published: 100, for SOP 50
    ``interval``    steps of the run per step of D (>= 1); published: 10, for SOP 200
    ``lr``          learning rate of D's own Adam (> 0), without a schedule
    ==============  ============================================================================================

    D is fixed in the model's step, and the features are fixed in D's step.

    Empty:      in a batch without pairs or tuples only the prior is left
    Reference:  Sinha et al., Uniform Priors for Data-Efficient Learning, CVPR Workshops 2022, arXiv:2006.16524
    Differs:    D steps after the model, on the same features
    Raises:     ConfigError if the chunk does not divide the width of the features, or no backbone is trained
    """

    head = staticmethod(linear_head)

    def __init__(
        self, *, weight: float = 0.1, chunk: int = 128, hidden: int = 100, interval: int = 10, lr: float = 1e-5
    ) -> None:
        check_at_least("UniformPrior", "weight", weight, 0)
        check_count("UniformPrior", "chunk", chunk)
        check_count("UniformPrior", "hidden", hidden)
        check_count("UniformPrior", "interval", interval)
        check_above("UniformPrior", "lr", lr, 0)
        self.weight, self.chunk, self.hidden, self.interval, self.lr = weight, chunk, hidden, interval, lr

    def build(self, inputs: MethodInputs) -> Objective:
        """Build the objective of a run."""
        backbone = inputs.model.backbone
        if not any(parameter.requires_grad for parameter in backbone.parameters()):
            raise ConfigError(
                "uniform_prior regularizes the features below the head, and nothing below the head is trained here",
                hint="Use --depth top or --depth full on images.",
            )
        if backbone.width % self.chunk:
            divisors = [size for size in range(1, 257) if backbone.width % size == 0]
            raise ConfigError(
                f"uniform_prior: chunk must divide the {backbone.width} features",
                got=self.chunk,
                hint=f"Use uniform_prior:chunk={divisors[-1]}.",
            )
        return UniformPriorObjective(inputs, self)
