"""ArcFace: softmax cross-entropy over class vectors with an additive angular margin."""

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from unseen.core.checks import check_above, check_between, check_choice
from unseen.core.registry import loss
from unseen.losses.base import ProxyLoss
from unseen.pairs.functional import inner_products, unit_vectors
from unseen.pairs.pairs import Pairs
from unseen.pairs.tuples import LossOutput

CLIP = 1e-7
"""Cosines are clamped this far from -1 and 1, where the angle has no gradient."""

REFERENCE_LOWEST = 1e-10
"""Lowest cosine in the code of Roth et al.: larger angles count as a right angle."""


def arc_face(
    pairs: Pairs, proxies: Tensor, *, margin_radians: float, scale: float, reference_clip: bool = False
) -> LossOutput:
    """Mean cross-entropy with the margin added to the angle of the true class; see `ArcFace` for the formula."""
    lowest = REFERENCE_LOWEST if reference_clip else CLIP - 1
    cosine = inner_products(pairs.normalized, unit_vectors(proxies)).clamp(lowest, 1 - CLIP)  # n x C
    true_class = pairs.labels.unsqueeze(1)
    own = cosine.gather(1, true_class)
    # cos(theta + margin) without the angle itself; (1 - c)(1 + c) keeps the digits that 1 - c^2 loses near 1.
    sine = ((1 - own) * (1 + own)).sqrt()
    widened = own * math.cos(margin_radians) - sine * math.sin(margin_radians)
    continued = own - margin_radians * math.sin(margin_radians)
    moved = torch.where(own >= -math.cos(margin_radians), widened, continued)
    return LossOutput(cross_entropy(scale * cosine.scatter(1, true_class, moved), pairs.labels), len(pairs), len(pairs))


@loss("arc_face")
class ArcFace(ProxyLoss):
    r"""ArcFace: softmax cross-entropy over cosines with an additive angular margin.

    .. math:: -\frac1n \sum_i \log \frac{e^{s\,\psi(\theta_{i y_i})}}
                                        {e^{s\,\psi(\theta_{i y_i})} + \sum_{c \ne y_i} e^{s \cos\theta_{ic}}},
              \qquad \psi(\theta) = \begin{cases} \cos(\theta + \gamma) & \theta \le \pi - \gamma \\
                                    \cos\theta - \gamma \sin\gamma & \text{else} \end{cases}

    ==================  ================================================================================
    theta_ic            angle between embedding i and class vector c, for all training classes; its
                        cosine stays 1e-7 away from -1 and 1
    gamma               ``margin_radians`` (0 to pi); 0 is ``NormalizedSoftmax`` at temperature 1/s
    s                   ``scale`` (> 0), which multiplies the cosines
    ``reference_clip``  as in the code of Roth et al., cosines below 1e-10 count as 1e-10, also for the
                        true class: angles beyond 90 degrees have no gradient
    ``proxy_lr``        learning rate of the class vectors; None: that of the optimiser. No weight decay
    ``seed``            the class vectors start at U(-1, 1)/sqrt(embedding_size), drawn with it
    ==================  ================================================================================

    Shape:      n embeddings -> scalar of their dtype (at least float32)
    Empty:      never: every embedding has a class vector; 0 with a single class
    Reference:  Deng et al., ArcFace: Additive Angular Margin Loss for Deep Face Recognition, CVPR 2019,
                arXiv:1801.07698
    Differs:    beyond pi - gamma the logit of the true class keeps falling, with a step at that angle, where the
                formula of the paper would rise again (as in pytorch-metric-learning). The code of Roth et al.
                (arXiv:2002.08473) adds the margin to all classes, where it cancels: ``reference_clip`` with
                ``margin_radians=0`` is what it computes
    Raises:     BatchError for a label outside 0 .. num_classes - 1
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        margin_radians: float = 0.5,
        scale: float = 16.0,
        reference_clip: bool = False,
        proxy_lr: float | None = 5e-4,
        seed: int = 0,
    ) -> None:
        super().__init__(
            num_classes=num_classes, embedding_size=embedding_size, proxy_lr=proxy_lr, seed=seed, start="uniform"
        )
        check_between("ArcFace", "margin_radians", margin_radians, 0, math.pi)
        check_above("ArcFace", "scale", scale, 0)
        check_choice("ArcFace", "reference_clip", reference_clip, (True, False))
        self.margin_radians, self.scale, self.reference_clip = margin_radians, scale, reference_clip

    def compute(self, pairs: Pairs, proxies: Tensor) -> LossOutput:
        """Loss of the batch."""
        return arc_face(
            pairs, proxies, margin_radians=self.margin_radians, scale=self.scale, reference_clip=self.reference_clip
        )
