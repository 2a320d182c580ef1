"""Proxy-NCA loss: neighbourhood components analysis with a learned proxy per class."""

import torch
from torch import Tensor

from unseen.core.checks import check_above
from unseen.core.registry import loss
from unseen.losses.base import ProxyLoss
from unseen.pairs.functional import inner_products, log_sum_exp, unit_vectors
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput


def proxy_nca(pairs: Pairs, proxies: Tensor, *, radius: float) -> LossOutput:
    """Mean over samples of the log-ratio of their own to all other proxies; see `ProxyNCA` for the formula."""
    cosine = inner_products(pairs.normalized, unit_vectors(proxies))  # n x C
    own_class = pairs.labels.unsqueeze(1)
    is_other = torch.arange(len(proxies), device=own_class.device) != own_class
    # -d^2 is 2 r^2 cos - 2 r^2, and what all proxies have in common cancels.
    scale = 2 * radius**2
    terms = log_sum_exp(cosine, is_other, scale=scale, largest=1) - scale * cosine.gather(1, own_class).squeeze(1)
    has_others = len(proxies) > 1
    return LossOutput(terms.mean() * has_others, len(pairs) * has_others, len(pairs) * has_others)


@loss("proxy_nca")
class ProxyNCA(ProxyLoss):
    r"""Proxy-NCA loss: softmax over squared distances to the class proxies.

    .. math:: \frac1n \sum_i \Bigl( d^2_{i y_i} + \log \sum_{c \ne y_i} e^{-d^2_{ic}} \Bigr)

    ===============  ================================================================================
    d_ic             Euclidean distance of embedding i and proxy c, both scaled to length ``radius``
    ``radius``       scales every exponent by its square (> 0)
    ``proxy_lr``     learning rate of the proxies; None: that of the optimiser. No weight decay
    ``seed``         the proxies start at N(0, 1)/8, drawn with it
    ===============  ================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32); it may be negative, as the sum leaves out
                the own proxy
    Empty:      never: every embedding has a proxy; with a single class zero connected to the graph
    Reference:  Movshovitz-Attias et al., No Fuss Distance Metric Learning using Proxies, ICCV 2017, arXiv:1703.07464
    Differs:    distances are squared and the radius is 3, as in the code of Roth et al. (arXiv:2002.08473), who print
                them unsquared and without a radius
    Raises:     BatchError for a label outside 0 .. num_classes - 1
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        radius: float = 3.0,
        proxy_lr: float | None = 5e-4,
        seed: int = 0,
    ) -> None:
        super().__init__(
            num_classes=num_classes, embedding_size=embedding_size, proxy_lr=proxy_lr, seed=seed, start="normal"
        )
        check_above("ProxyNCA", "radius", radius, 0)
        self.radius = radius

    def compute(self, pairs: Pairs, proxies: Tensor) -> LossOutput:
        """Loss of the batch."""
        return proxy_nca(pairs, proxies, radius=self.radius)
