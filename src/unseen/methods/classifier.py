"""A classifier over the training classes beside the loss."""

from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unseen.core.checks import check_above, check_at_least, check_between, check_choice
from unseen.core.errors import ConfigError
from unseen.core.registry import method
from unseen.losses.proxies import new_proxies
from unseen.methods.objective import FeatureOutput, ForwardOutput, MethodInputs, Objective
from unseen.models import linear_head
from unseen.pairs.functional import inner_products, unit_vectors
from unseen.pairs.parameters import ParameterGroup


class ClassifierObjective(Objective):
    """The loss, and the label-smoothed cross-entropy of a cosine classifier with its own class vectors."""

    def __init__(self, inputs: MethodInputs, settings: "Classifier") -> None:
        super().__init__(inputs.model, inputs.new_loss(inputs.model.width))
        self.settings = settings
        width = inputs.model.width if settings.on == "embedding" else inputs.model.backbone.width
        self.class_vectors: nn.Parameter = new_proxies(inputs.num_classes, width, start="uniform", seed=inputs.seed)

    def forward(self, inputs: Tensor, *, key: int) -> FeatureOutput:
        """Embeddings and features."""
        return self.forward_features(inputs)

    def value(self, output: ForwardOutput, labels: Tensor, *, key: int) -> Tensor:
        """The loss and the weighted cross-entropy."""
        assert isinstance(output, FeatureOutput)
        settings = self.settings
        rows = (output.embeddings if settings.on == "embedding" else output.features).to(self.class_vectors.dtype)
        logits = inner_products(unit_vectors(rows), unit_vectors(self.class_vectors)) / settings.temperature
        entropy = cross_entropy(logits, labels, label_smoothing=settings.smoothing)
        return self.loss_of(output.embeddings, labels, key=key) + settings.weight * entropy

    def own_parameters(self) -> list[ParameterGroup]:
        """The parameters of the loss, and the class vectors at their own learning rate and without weight decay."""
        vectors: ParameterGroup = {"params": [self.class_vectors], "lr": self.settings.lr, "weight_decay": 0.0}
        return [*super().own_parameters(), vectors]


@method("classifier")
class Classifier:
    r"""The loss, and a label-smoothed softmax over the training classes.

    .. math:: L(f(x), y) - w \frac1n \sum_i \sum_c q_{ic} \log \frac{e^{s_{ic} / T}}{\sum_k e^{s_{ik} / T}}, \qquad
              q_{ic} = (1 - \varepsilon)\, [c = y_i] + \frac{\varepsilon}{C}

    ===============  ==========================================================================================
    f(x), L          embeddings of the batch, and the loss of the run
    s_ic             cosine of item i and the learned vector of class c, one of C training classes
    w                ``weight`` (>= 0) of the classifier
    epsilon          ``smoothing`` (0 to 1): the share of the target that all classes divide equally
    T                ``temperature`` (> 0) by which the cosines are divided
    ``on``           what is classified: the "embedding", or the pooled "features" below the head
    ``lr``           learning rate of the class vectors; None: that of the optimizer. No weight decay
    ===============  ==========================================================================================

    At evaluation the classifier is not used.

    Empty:      in a batch without pairs or tuples only the classifier is left
    Reference:  Zhai and Wu, Classification is a Strong Baseline for Deep Metric Learning, BMVC 2019, arXiv:1811.12649;
                label smoothing: Szegedy et al., Rethinking the Inception Architecture, CVPR 2016, arXiv:1512.00567
    Differs:    the classifier is an addition to another loss here, not the loss itself (`normalized_softmax`)
    Raises:     ConfigError for features that are not trained
    """

    head = staticmethod(linear_head)

    def __init__(
        self,
        *,
        weight: float = 0.5,
        smoothing: float = 0.1,
        temperature: float = 0.05,
        on: Literal["embedding", "features"] = "embedding",
        lr: float | None = 1e-3,
    ) -> None:
        check_at_least("Classifier", "weight", weight, 0)
        check_between("Classifier", "smoothing", smoothing, 0, 1)
        check_above("Classifier", "temperature", temperature, 0)
        check_choice("Classifier", "on", on, ("embedding", "features"))
        if lr is not None:
            check_at_least("Classifier", "lr", lr, 0)
        self.weight, self.smoothing, self.temperature, self.on, self.lr = weight, smoothing, temperature, on, lr

    def build(self, inputs: MethodInputs) -> Objective:
        """Build the objective of a run."""
        below = inputs.model.backbone.parameters()
        if self.on == "features" and not any(parameter.requires_grad for parameter in below):
            raise ConfigError(
                "classifier: nothing below the head is trained here, so features have nothing to learn",
                hint="Use classifier:on=embedding.",
            )
        return ClassifierObjective(inputs, self)
