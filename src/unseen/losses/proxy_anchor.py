"""Proxy-Anchor loss: a learned proxy per class is the anchor of all samples of the batch."""

import torch
from torch import Tensor

from unseen.core.checks import check_above, check_at_least
from unseen.core.registry import loss
from unseen.losses.base import ProxyLoss
from unseen.pairs.functional import inner_products, log1p_sum_exp, masked_mean, row_counts, unit_vectors
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput


def proxy_anchor(pairs: Pairs, proxies: Tensor, *, alpha: float, margin: float) -> LossOutput:
    """Mean over proxies of both log-sums; see `ProxyAnchor` for the formula."""
    cosine = inner_products(unit_vectors(proxies), pairs.normalized)
    classes = torch.arange(len(proxies), device=proxies.device)
    is_own = classes.unsqueeze(1) == pairs.labels
    pull, push = log1p_sum_exp(cosine, (is_own, ~is_own), scale=(-alpha, alpha), center=(margin, -margin), largest=1)
    value = masked_mean(pull, row_counts(is_own) > 0) + push.mean()
    return LossOutput(value, len(pairs), len(pairs))


@loss("proxy_anchor")
class ProxyAnchor(ProxyLoss):
    r"""Proxy-Anchor loss: log(1 + sum of exponentials) over the batch for each class proxy.

    .. math:: \frac1{|P^+|} \sum_{p \in P^+} \log\bigl[1 + \sum_{i: y_i = p} e^{-\alpha (c_{ip} - \delta)}\bigr]
              + \frac1C \sum_p \log\bigl[1 + \sum_{i: y_i \ne p} e^{\alpha (c_{ip} + \delta)}\bigr]

    ===============  ================================================================================
    c_ip             cosine of embedding i and proxy p
    P^+, C           proxies of classes in the batch; number of all proxies
    alpha            sharpness (> 0)
    delta            ``margin`` (>= 0): cosines should be above it for positives, below -delta for negatives
    ``proxy_lr``     learning rate of the proxies; None: that of the optimiser. No weight decay
    ``seed``         the proxies start at N(0, 1)/8, drawn with it
    ===============  ================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      never: every embedding has a proxy; the proxies of absent classes are not in the first term
    Reference:  Kim et al., Proxy Anchor Loss for Deep Metric Learning, CVPR 2020, arXiv:2003.13911
    Differs:    nothing; Milbich et al. weight a proxy by its number of samples (equal when all have as many)
    Raises:     BatchError for a label outside 0 .. num_classes - 1
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        alpha: float = 32.0,
        margin: float = 0.1,
        proxy_lr: float | None = 0.02,
        seed: int = 0,
    ) -> None:
        super().__init__(
            num_classes=num_classes, embedding_size=embedding_size, proxy_lr=proxy_lr, seed=seed, start="normal"
        )
        check_above("ProxyAnchor", "alpha", alpha, 0)
        check_at_least("ProxyAnchor", "margin", margin, 0)
        self.alpha, self.margin = alpha, margin

    def compute(self, pairs: Pairs, proxies: Tensor) -> LossOutput:
        """Loss of the batch."""
        return proxy_anchor(pairs, proxies, alpha=self.alpha, margin=self.margin)
