"""Embedding heads and their initialisation: random, or a projection of the backbone's features."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from unseen.core.checks import check_choice

HeadInit = Literal["random", "identity", "whitening", "lda"]
HEAD_INITS = ("random", "identity", "whitening", "lda")

# Added to every variance, as a multiple of their mean, before dividing by its root.
SHRINKAGE = 1.0
# The same for variances within classes: 1, 3, 10 and 30 were compared on training classes of CUB-200 (docs/results.md).
WITHIN_CLASS_SHRINKAGE = 3.0


def principal_projection(features: Tensor, size: int, *, whiten: bool) -> tuple[Tensor, Tensor]:
    r"""Return weight and bias of the linear map from features to their principal directions.

    .. math:: W = D^{-1/2} V_k^\top, \qquad b = -W \mu

    ==========  =================================================================================================
    whiten      True: directions of the largest variance about the mean mu, each divided by its standard deviation,
                D = lambda + the mean lambda (so that noise directions are not amplified), b as above
                False: directions of the largest second moment, D = 1 and b = 0; preserves lengths and angles,
                exactly if k is the width of the features
    ==========  =================================================================================================

    Both are scaled so that embeddings have a mean squared length of 1.

    Shape:  (n, d) -> (k, d), (k,); directions that n rows do not determine are filled with other orthogonal ones
    Empty:  rows that are all equal (whiten) or all zero give arbitrary directions and finite numbers
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


def discriminant_projection(features: Tensor, labels: Tensor, size: int) -> tuple[Tensor, Tensor]:
    r"""Return weight and bias of linear discriminant analysis, continued beyond the number of classes.

    .. math:: A = (S_w + \gamma\, \overline{s}\, I)^{-1/2}, \qquad W = U_k^\top A, \qquad b = -W \mu

    ==========  =================================================================================================
    S_w         covariance within the classes, s its mean variance; gamma = `WITHIN_CLASS_SHRINKAGE`
    U_k         directions of the largest variance of the features about their mean mu, after A
    ==========  =================================================================================================

    Directions in which images of one class differ, by pose or background, are shortened; distances afterwards are those
    that best tell classes apart. Embeddings have a mean squared length of 1.

    Shape:      (n, d), (n,) -> (k, d), (k,)
    Empty:      classes of one image, or of equal ones, have no variance: then these are the principal directions
    Reference:  Fisher, The use of multiple measurements in taxonomic problems, 1936; with unseen classes: Hatch et al.,
                Within-class covariance normalization for SVM-based speaker recognition, Interspeech 2006
    """
    rows = features.double()
    mean = rows.mean(dim=0)
    _, members = labels.unique(return_inverse=True)
    counts = members.bincount()
    class_means = torch.zeros(len(counts), rows.shape[1], dtype=rows.dtype).index_add_(0, members, rows)
    within = rows - (class_means / counts[:, None])[members]
    covariance = within.T @ within / len(rows)
    variance = covariance.diagonal().mean()
    covariance.diagonal().add_(WITHIN_CLASS_SHRINKAGE * variance if variance > 0 else 1.0)
    moments, directions = torch.linalg.eigh(covariance)
    shorten = directions / moments.sqrt()
    weight, _ = principal_projection((rows - mean) @ shorten, size, whiten=False)
    weight = weight.double() @ shorten.T
    return weight.float(), -(weight @ mean).float()


def linear_head(width: int, embedding_size: int | None) -> nn.Module:
    """Return a linear layer to the embedding size, or the identity for None."""
    return nn.Linear(width, embedding_size) if embedding_size else nn.Identity()


class ConcatenatedHeads(nn.Module):
    """Several linear heads of equal width; the embedding concatenates their normalised, weighted outputs.

    Shape:  (n, width) -> (n, embedding_size), divided equally among the heads; rows have length 1
    """

    def __init__(self, width: int, embedding_size: int, *, weights: Sequence[float]) -> None:
        super().__init__()
        self.weights = tuple(weights)
        self.linear = nn.Linear(width, embedding_size)

    def outputs(self, features: Tensor) -> tuple[Tensor, ...]:
        """Return the raw output of each head."""
        return self.linear(features).chunk(len(self.weights), dim=1)

    def concatenate(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return the embedding from the output of each head."""
        length = math.hypot(*self.weights)
        scaled = [normalize(output) * (weight / length) for output, weight in zip(outputs, self.weights, strict=True)]
        return torch.cat(scaled, dim=1)

    def forward(self, features: Tensor) -> Tensor:
        """Return the embedding."""
        return self.concatenate(self.outputs(features))


def linear_layer(head: nn.Module) -> nn.Linear | None:
    """Return the linear layer of a head; None for the identity."""
    if isinstance(head, ConcatenatedHeads):
        return head.linear
    return head if isinstance(head, nn.Linear) else None


def initialize_linear_head(head: nn.Module, features: Tensor, method: HeadInit, labels: Tensor | None = None) -> None:
    """Initialise a linear head in place; "random" leaves it unchanged, and "lda" needs the labels of the features.

    An embedding wider than the features gets the projection followed by zeros. Each of several concatenated heads is
    initialised as it would be alone.
    """
    check_choice("run", "head", method, HEAD_INITS)
    linear = linear_layer(head)
    if method == "random" or linear is None:
        return
    heads = len(head.weights) if isinstance(head, ConcatenatedHeads) else 1
    size = linear.out_features // heads
    if method == "lda":
        assert labels is not None, "lda needs labels"
        weight, bias = discriminant_projection(features, labels, size)
    else:
        weight, bias = principal_projection(features, size, whiten=method == "whitening")
    with torch.no_grad():
        for parameter, value in ((linear.weight, weight), (linear.bias, bias)):
            parameter.zero_()
            for own in parameter.chunk(heads):
                own[: len(value)] = value.to(parameter)
