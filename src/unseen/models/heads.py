"""How an embedding head begins: at random, or as a projection of the features that a backbone gives already."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from unseen.core.checks import check_choice

HeadInit = Literal["random", "identity", "whitening"]
HEAD_INITS = ("random", "identity", "whitening")

# Added to every variance, in shares of their mean, before its root is divided by.
SHRINKAGE = 1.0


def principal_projection(features: Tensor, size: int, *, whiten: bool) -> tuple[Tensor, Tensor]:
    r"""Weight and bias of a linear map from features to their leading directions.

    .. math:: W = D^{-1/2} V_k^\top, \qquad b = -W \mu

    ==========  =================================================================================================
    whiten      True: directions of the largest variance about the mean mu, each divided by its standard deviation,
                D = lambda + the mean lambda (so that directions of noise are not blown up), b as above
                False: directions of the largest second moment, D = 1 and b = 0; lengths and angles stay as they are,
                exactly where k is the width of the features
    ==========  =================================================================================================

    Both are scaled so that embeddings have a mean squared length of 1.

    Shape:  (n, d) -> (k, d), (k,); directions that n rows cannot show are filled with further orthogonal ones
    Empty:  rows that are all equal (whiten) or all zero give directions without meaning, and finite numbers
    """
    rows = features.double()
    mean = rows.mean(dim=0) if whiten else torch.zeros_like(rows[0])
    centred = rows - mean
    moments, directions = torch.linalg.eigh(centred.T @ centred / len(rows))
    moments, directions = moments.flip(0).clamp_min(0), directions.flip(1)
    weight = directions[:, :size].T
    if whiten:
        shrunk = moments[:size] + SHRINKAGE * moments.mean()
        weight = weight / shrunk.where(shrunk > 0, 1).sqrt()[:, None]
    length = (centred @ weight.T).square().sum(dim=1).mean().sqrt()
    weight = weight / length if length > 0 else weight
    return weight.float(), -(weight @ mean).float()


def linear_head(width: int, embedding_size: int | None) -> nn.Module:
    """A linear map to embeddings of a size; None leaves the features as they are."""
    return nn.Linear(width, embedding_size) if embedding_size else nn.Identity()


class ConcatenatedHeads(nn.Module):
    """Several linear heads of one width: at evaluation each at length 1 times its weight, side by side, at length 1.

    =========  ======================================================
    weights    one for each head (> 0)
    =========  ======================================================

    Shape:     (n, width) -> (n, embedding_size), which the heads share equally
    """

    def __init__(self, width: int, embedding_size: int, *, weights: Sequence[float]) -> None:
        super().__init__()
        self.weights = tuple(weights)
        self.linear = nn.Linear(width, embedding_size)

    def parts(self, features: Tensor) -> tuple[Tensor, ...]:
        """What each head makes of the features, at its own length."""
        return self.linear(features).chunk(len(self.weights), dim=1)

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """The evaluated embedding of what the heads made."""
        length = math.hypot(*self.weights)
        scaled = [normalize(part) * (weight / length) for part, weight in zip(parts, self.weights, strict=True)]
        return torch.cat(scaled, dim=1)

    def forward(self, features: Tensor) -> Tensor:
        """The evaluated embedding."""
        return self.joined(self.parts(features))


def linear_layer(head: nn.Module) -> nn.Linear | None:
    """The linear map of a head; None where features stay as they are."""
    if isinstance(head, ConcatenatedHeads):
        return head.linear
    return head if isinstance(head, nn.Linear) else None


def initialize_linear_head(head: nn.Module, features: Tensor, start: HeadInit) -> None:
    """Set a linear head to its start, in place; "random" leaves it as its layer drew it.

    An embedding wider than the features gets the projection first and zeros behind it. Of heads side by side each
    starts as it would alone.
    """
    check_choice("run", "head", start, HEAD_INITS)
    linear = linear_layer(head)
    if start == "random" or linear is None:
        return
    heads = len(head.weights) if isinstance(head, ConcatenatedHeads) else 1
    weight, bias = principal_projection(features, linear.out_features // heads, whiten=start == "whitening")
    with torch.no_grad():
        for parameter, value in ((linear.weight, weight), (linear.bias, bias)):
            parameter.zero_()
            for own in parameter.chunk(heads):
                own[: len(value)] = value.to(parameter)
