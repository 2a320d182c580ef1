"""Generalised-mean pooling of feature maps."""

from torch import Tensor, nn

from unseen.core.checks import check_above

# Added as a floor before the root, so that a channel that is zero everywhere has a finite gradient.
_SMALLEST = 1e-6


class GeneralizedMean(nn.Module):
    r"""The generalised mean of every channel over the positions of its map.

    .. math:: f_c = \Bigl(\tfrac{1}{hw} \sum_{ij} \max(x_{cij}, \epsilon)^p\Bigr)^{1/p}

    ===========  =============================================================================================
    p            ``power`` (> 0): 1 is the average, and the larger it is the nearer the maximum
    epsilon      1e-6; maps are those after a ReLU
    ===========  =============================================================================================

    Shape:      (n, channels, height, width) -> (n, channels)
    Reference:  Radenovic et al., Fine-tuning CNN Image Retrieval with No Human Annotation, TPAMI 2019, arXiv:1711.02512
    Differs:    the power is fixed; learned there, it stays near 3
    """

    def __init__(self, *, power: float = 3.0) -> None:
        super().__init__()
        check_above("GeneralizedMean", "power", power, 0)
        self.power = power

    def forward(self, maps: Tensor) -> Tensor:
        """Return the pooled channels."""
        return maps.clamp_min(_SMALLEST).pow(self.power).mean(dim=(2, 3)).pow(1 / self.power)
