"""Normalised softmax loss: classification of unit embeddings with unit class vectors."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from unseen.core.checks import check_above
from unseen.core.registry import loss
from unseen.losses.base import ProxyLoss
from unseen.pairs.functional import inner_products, unit_vectors
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput


def normalized_softmax(pairs: Pairs, proxies: Tensor, *, temperature: float) -> LossOutput:
    """Mean cross-entropy of cosine logits over all classes; see `NormalizedSoftmax` for the formula."""
    logits = inner_products(pairs.normalized, unit_vectors(proxies)) / temperature
    return LossOutput(cross_entropy(logits, pairs.labels), len(pairs), len(pairs))


@loss("normalized_softmax")
class NormalizedSoftmax(ProxyLoss):
    r"""Normalised softmax loss: cross-entropy of the cosines to learned class vectors.

    .. math:: -\frac1n \sum_i \log \frac{e^{c_{i y_i} / T}}{\sum_c e^{c_{ic} / T}}

    ===============  ===================================================================================
    c_ic             cosine of embedding i and class vector c, for all training classes
    T                ``temperature`` (> 0) by which the cosines are divided
    ``proxy_lr``     learning rate of the class vectors; None: that of the optimiser. No weight decay
    ``seed``         the class vectors start at U(-1, 1)/sqrt(embedding_size), drawn with it
    ===============  ===================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      never: every embedding has a class vector; 0 with a single class
    Reference:  Zhai and Wu, Classification is a Strong Baseline for Deep Metric Learning, BMVC 2019, arXiv:1811.12649
    Differs:    nothing; Roth et al. (arXiv:2002.08473) print it without the class itself in the denominator
    Raises:     BatchError for a label outside 0 .. num_classes - 1
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        temperature: float = 0.05,
        proxy_lr: float | None = 1e-5,
        seed: int = 0,
    ) -> None:
        super().__init__(
            num_classes=num_classes, embedding_size=embedding_size, proxy_lr=proxy_lr, seed=seed, start="uniform"
        )
        check_above("NormalizedSoftmax", "temperature", temperature, 0)
        self.temperature = temperature

    def compute(self, pairs: Pairs, proxies: Tensor) -> LossOutput:
        """Loss of the batch."""
        return normalized_softmax(pairs, proxies, temperature=self.temperature)
