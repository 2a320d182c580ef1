"""Draw robust-weights.png: the weight that each uncertainty set gives every pair of one batch, over the pair's loss.

The weights are the gradient of the robust value with respect to the pair losses, computed by autograd.
"""

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from unseen.core.randomness import derive, torch_generator
from unseen.losses import MarginPair, Pairs, PairTerms
from unseen.robust import KL, ChiSquare, GroupedKL, Max, Mean, TopK, TopKBalanced
from unseen.robust.robust import robust
from unseen.robust.worst_case import Uncertainty

CLASSES, PER_CLASS, WIDTH = 12, 4, 12

SETS: list[tuple[str, Uncertainty]] = [
    ("Mean()", Mean()),
    ("Max()", Max()),
    ("TopK(k=40)", TopK(40)),
    ("TopKBalanced(k=40)", TopKBalanced(40)),
    ("KL(gamma=0.3)", KL(gamma=0.3)),
    ("KL(gamma=0.1)", KL(gamma=0.1)),
    ("ChiSquare(rho=20)", ChiSquare(rho=20)),
    ("ChiSquare(rho=200)", ChiSquare(rho=200)),
    ('GroupedKL(reduction="mean")', GroupedKL(reduction="mean")),
]

KINDS = (("positive pairs", "#0072b2", "o"), ("negative pairs", "#d55e00", "^"))


def batch() -> tuple[Tensor, Tensor]:
    """Embeddings around one centre per class, and their labels; the same at every call."""
    generator = torch_generator(derive(0, "robust weights"))
    labels = torch.arange(CLASSES * PER_CLASS) // PER_CLASS
    centres = torch.randn(CLASSES, WIDTH, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(labels), WIDTH, generator=generator, dtype=torch.float64)
    return centres[labels] + 0.8 * noise, labels


def pair_losses() -> PairTerms:
    """The losses of all pairs of the batch."""
    return MarginPair(margin=0.2, threshold=0.5).terms(Pairs(*batch()))


def pair_weights(terms: PairTerms, uncertainty: Uncertainty) -> Tensor:
    """The derivative of the robust value with respect to the loss of each unordered pair, in the upper triangle."""
    values = terms.values.detach().requires_grad_()
    robust(terms._replace(values=values), uncertainty, remove_zero=True, key=0).value.backward()
    assert values.grad is not None
    return (values.grad + values.grad.T).triu(1)


def draw(axes: Axes, title: str, terms: PairTerms, weights: Tensor) -> None:
    """One panel: a point for each pair whose loss is above 0."""
    losses = terms.values.detach()
    total = weights.sum()
    for (label, colour, marker), mask in zip(KINDS, (terms.is_positive, terms.is_negative), strict=True):
        shown = mask.triu(1) & (losses > 0)
        share = 100 * float(weights[shown].sum() / total)
        axes.scatter(
            losses[shown],
            weights[shown],
            s=16,
            c=colour,
            marker=marker,
            alpha=0.65,
            linewidths=0,
            clip_on=False,
            label=f"{label}: {share:.1f} %",
        )
    axes.set_title(title, fontsize=10, loc="left", family="monospace")
    # Room above the largest weight, for the legend.
    axes.set_ylim(0, 1.3 * float(weights.max()))
    axes.set_xlim(0, None)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8, frameon=False, loc="upper left", handletextpad=0.1, borderaxespad=0.1)


def figure() -> Figure:
    """All sets on the same batch, each panel with its own scale."""
    terms = pair_losses()
    drawing = Figure(figsize=(10.5, 9), layout="constrained")
    FigureCanvasAgg(drawing)
    panels = drawing.subplots(3, 3)
    for axes, (title, uncertainty) in zip(panels.flat, SETS, strict=True):
        draw(axes, title, terms, pair_weights(terms, uncertainty))
    for axes in panels[-1]:
        axes.set_xlabel("loss of the pair", fontsize=9)
    for axes in panels[:, 0]:
        axes.set_ylabel("weight of the pair", fontsize=9)
    counts = [int((mask.triu(1) & (terms.values > 0)).sum()) for mask in (terms.is_positive, terms.is_negative)]
    drawing.suptitle(
        f"Weights of {counts[0]} positive and {counts[1]} negative pairs with a loss, one batch of "
        f"{CLASSES} classes with {PER_CLASS} samples\n(percentages: each kind's share of the whole weight)",
        fontsize=11,
    )
    return drawing


def main() -> None:
    """Write the picture beside this file."""
    figure().savefig(Path(__file__).with_name("robust-weights.png"), dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
