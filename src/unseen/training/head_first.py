"""Training the head alone before everything is trained."""

from torch import nn

from unseen.training.schedules import Schedule


class HeadFirst:
    """Keeps a backbone fixed for the first steps of a run; the schedule runs over both phases, one after the other.

    A head that starts at random sends large gradients into a pretrained backbone and distorts its features; a head that
    was trained before does so less.

    Reference:  Kumar et al., Fine-Tuning can Distort Pretrained Features, ICLR 2022, arXiv:2202.10054
    """

    def __init__(self, backbone: nn.Module, steps: int) -> None:
        self.steps = steps
        self._parameters = [parameter for parameter in backbone.parameters() if parameter.requires_grad]
        self._is_trained = True

    def set_phase(self, step: int) -> None:
        """Before the step counted from 0: the backbone is trained from step `steps` on."""
        is_trained = step >= self.steps
        if is_trained != self._is_trained:
            for parameter in self._parameters:
                parameter.requires_grad_(is_trained)
            self._is_trained = is_trained

    def factor(self, schedule: Schedule, step: int, total: int) -> float:
        """The schedule's factor of the learning rates, within the phase of the step."""
        if step < self.steps:
            return schedule.factor(step, self.steps)
        return schedule.factor(step - self.steps, total - self.steps)
