"""SoftTriple loss: classification with several learned centres per class."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from unseen.core.checks import check_above, check_at_least, check_count
from unseen.core.registry import loss
from unseen.losses.base import ProxyLoss
from unseen.pairs.functional import inner_products, soft_maximum, unit_vectors
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput

SPREAD_EPSILON = 1e-5
"""Added to the squared distances of centres before the root, so that equal centres have a finite gradient."""


def soft_triple(pairs: Pairs, centers: Tensor, *, scale: float, margin: float, gamma: float, tau: float) -> LossOutput:
    """Mean cross-entropy plus the regulariser of the centres (C x K x d); see `SoftTriple` for the formula."""
    classes, per_class, _ = centers.shape
    unit = unit_vectors(centers.flatten(0, 1))
    cosine = inner_products(pairs.normalized, unit).view(-1, classes, per_class)  # n x C x K
    logits = scale * soft_maximum(cosine, temperature=gamma)  # n x C
    own_margin = logits.new_full((len(pairs), 1), -scale * margin)
    value = cross_entropy(logits.scatter_add(1, pairs.labels.unsqueeze(1), own_margin), pairs.labels)
    if per_class > 1:
        value = value + tau * spread_of(unit.view_as(centers))
    return LossOutput(value, len(pairs), len(pairs))


def spread_of(centers: Tensor) -> Tensor:
    """Half the mean distance between two unit centres of one class, over all classes; C x K x d with K at least 2."""
    classes, per_class, _ = centers.shape
    first, second = torch.triu_indices(per_class, per_class, 1, device=centers.device)
    cosine = inner_products(centers, centers)[:, first, second]  # C x K (K - 1) / 2
    distance = (2 + SPREAD_EPSILON - 2 * cosine).sqrt()
    return distance.sum() / (classes * per_class * (per_class - 1))


@loss("soft_triple")
class SoftTriple(ProxyLoss):
    r"""SoftTriple loss: cross-entropy over several learned centres per class.

    .. math:: -\frac1n \sum_i \log \frac{e^{\lambda (S_{i y_i} - \delta)}}
                                        {e^{\lambda (S_{i y_i} - \delta)} + \sum_{c \ne y_i} e^{\lambda S_{ic}}}
              + \frac{\tau}{C K (K - 1)} \sum_c \sum_{k < l} \lVert w_c^k - w_c^l \rVert,
              \qquad S_{ic} = \sum_k \frac{e^{s_{ic}^k / \gamma}}{\sum_l e^{s_{ic}^l / \gamma}} s_{ic}^k

    =====================  ==============================================================================
    s_ic^k                 cosine of embedding i and centre k of class c, over all training classes
    w_c^k                  unit-length centres; 1e-5 is added to their squared distances before the root
    C, K                   ``num_classes``; ``centers_per_class`` (>= 1; with 1 the second term is absent)
    lambda                 ``scale`` (> 0), which multiplies the similarities
    delta                  ``margin`` (>= 0), subtracted from the similarity to the true class
    gamma                  temperature (> 0): towards 0 the nearest centre counts, with large gamma the mean of all
    tau                    weight of the centre regulariser (>= 0)
    ``proxy_lr``           learning rate of the centres; None: that of the optimiser. No weight decay
    ``seed``               the centres start at U(-1, 1)/sqrt(embedding_size), drawn with it
    =====================  ==============================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      never: every embedding has centres; with a single class only the second term is left
    Reference:  Qian et al., SoftTriple Loss: Deep Metric Learning Without Triplet Sampling, ICCV 2019, arXiv:1909.05235
    Differs:    scale 8 and 2 centres, as Roth et al. (arXiv:2002.08473) have it; the paper's are 20 and 10
    Raises:     BatchError for a label outside 0 .. num_classes - 1
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        centers_per_class: int = 2,
        scale: float = 8.0,
        margin: float = 0.01,
        gamma: float = 0.1,
        tau: float = 0.2,
        proxy_lr: float | None = 1e-5,
        seed: int = 0,
    ) -> None:
        check_count("SoftTriple", "centers_per_class", centers_per_class)
        super().__init__(
            num_classes=num_classes,
            embedding_size=embedding_size,
            proxy_lr=proxy_lr,
            seed=seed,
            start="uniform",
            per_class=centers_per_class,
        )
        check_above("SoftTriple", "scale", scale, 0)
        check_at_least("SoftTriple", "margin", margin, 0)
        check_above("SoftTriple", "gamma", gamma, 0)
        check_at_least("SoftTriple", "tau", tau, 0)
        self.centers_per_class = centers_per_class
        self.scale, self.margin, self.gamma, self.tau = scale, margin, gamma, tau

    def compute(self, pairs: Pairs, proxies: Tensor) -> LossOutput:
        """Loss of the batch."""
        return soft_triple(pairs, proxies, scale=self.scale, margin=self.margin, gamma=self.gamma, tau=self.tau)
