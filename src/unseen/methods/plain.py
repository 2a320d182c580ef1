"""The plain method: one loss on one head."""

from unseen.core.registry import method
from unseen.methods.objective import MethodInputs, Objective
from unseen.models import linear_head


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
        return Objective(inputs.model, inputs.new_loss(inputs.model.width))
