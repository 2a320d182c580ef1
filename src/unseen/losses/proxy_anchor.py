"""Proxy anchor: one learnt proxy a class pulls its samples and pushes all others, hardest first."""

from typing import Any

import torch
from torch import Tensor, nn

from unseen.core.checks import check_above, check_at_least, check_count
from unseen.core.registry import loss
from unseen.losses.classes import check_classes, new_proxies
from unseen.losses.pairs import Pairs, inner_products, log1p_sum_exp, pairs_of, unit_vectors
from unseen.losses.tuples import Outcome, Usage, usage_of


def proxy_anchor(pairs: Pairs, proxies: Tensor, *, alpha: float, margin: float) -> Outcome:
    """The soft hinges of every proxy over the batch; formula and symbols are with `ProxyAnchor`."""
    cosine = inner_products(unit_vectors(proxies), pairs.normalized)
    classes = torch.arange(len(proxies), device=proxies.device)
    is_own = classes.unsqueeze(1) == pairs.labels
    pull = log1p_sum_exp(-alpha * (cosine - margin), is_own)
    push = log1p_sum_exp(alpha * (cosine + margin), ~is_own)
    present = is_own.any(1).sum()
    return Outcome(pull.sum() / present.clamp(min=1) + push.mean(), len(pairs), len(pairs))


@loss("proxy_anchor")
class ProxyAnchor(nn.Module):
    r"""Proxies as anchors: soft hinges of each class's proxy over the samples of the batch.

    .. math:: \frac1{|P^+|} \sum_{p \in P^+} \log\bigl[1 + \sum_{i: y_i = p} e^{-\alpha (c_{ip} - \delta)}\bigr]
              + \frac1C \sum_p \log\bigl[1 + \sum_{i: y_i \ne p} e^{\alpha (c_{ip} + \delta)}\bigr]

    ===============  ================================================================================
    c_ip             cosine of embedding i and proxy p
    P^+, C           the proxies whose class is in the batch; the number of all proxies
    alpha            sharpness (> 0)
    delta            ``margin`` (>= 0)
    ``proxy_lr``     learning rate of the proxies; None takes the optimiser's own. No weight decay
    ``seed``         the proxies start at N(0, 1)/8, drawn from it
    ===============  ================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      every embedding has its proxy, so every batch counts; a class that is absent has no pull
    Reference:  Kim et al., Proxy Anchor Loss for Deep Metric Learning, CVPR 2020, arXiv:2003.13911
    Differs:    nothing; Milbich et al. weigh a proxy by its number of samples (equal when all have as many)
    Raises:     BatchError for a label outside 0 .. num_classes - 1
    """

    usage: Usage | None = None

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
        super().__init__()
        check_count("ProxyAnchor", "num_classes", num_classes)
        check_count("ProxyAnchor", "embedding_size", embedding_size)
        check_above("ProxyAnchor", "alpha", alpha, 0)
        check_at_least("ProxyAnchor", "margin", margin, 0)
        if proxy_lr is not None:
            check_at_least("ProxyAnchor", "proxy_lr", proxy_lr, 0)
        check_count("ProxyAnchor", "seed", seed, 0)
        self.num_classes, self.embedding_size, self.alpha, self.margin = num_classes, embedding_size, alpha, margin
        self.proxy_lr, self.seed = proxy_lr, seed
        self.proxies = new_proxies(num_classes, embedding_size, start="normal", seed=seed)

    def forward(self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None) -> Tensor:
        """The loss of a batch; `key` is taken for the sake of one call shape, nothing is drawn."""
        pairs = pairs_of(embeddings, labels)
        check_classes("ProxyAnchor", pairs, self.num_classes, self.embedding_size)
        proxies = self.proxies.to(pairs.embeddings.dtype)
        outcome = proxy_anchor(pairs, proxies, alpha=self.alpha, margin=self.margin)
        self.usage = usage_of(pairs, outcome)
        return outcome.value

    def own_parameters(self) -> list[dict[str, Any]]:
        """The proxies."""
        return [{"params": [self.proxies], "lr": self.proxy_lr, "weight_decay": 0.0}]
