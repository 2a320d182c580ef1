"""The plain method: one loss on one head."""

from torch import Tensor

from unseen.core.registry import method
from unseen.methods.objective import ForwardOutput, MethodInputs, Objective
from unseen.models import linear_head


class PlainObjective(Objective):
    """The loss on the model's embedding."""

    def value(self, output: ForwardOutput, labels: Tensor, *, key: int) -> Tensor:
        """The loss."""
        return self.loss_of(output.embeddings, labels, key=key)


@method("plain")
class Plain:
    r"""One loss on one linear head: standard training.

    .. math:: L(f(x), y)

    ======  =====================================
    f(x)    embeddings of a batch: a linear head on the backbone's pooled features
    L       the loss of the run, with its miner
    ======  =====================================

    Empty:      as for the loss
    Reference:  Roth et al., Revisiting Training Strategies and Generalization Performance in Deep Metric Learning,
                ICML 2020, arXiv:2002.08473
    Differs:    nothing
    """

    head = staticmethod(linear_head)

    def build(self, inputs: MethodInputs) -> Objective:
        """Build the objective of a run."""
        return PlainObjective(inputs.model, inputs.new_loss(inputs.model.width))
