"""Few-shot adaptation: the gain from fine-tuning the last layer on a few images of each test class."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.stats import t as student
from torch import Tensor, nn

from unseen.core.checks import check_above, check_choice, check_count
from unseen.core.errors import DataError
from unseen.core.progress import Progress, no_progress
from unseen.core.randomness import derive, numpy_generator
from unseen.data.batches import CatalogueDataset
from unseen.data.splits import Split
from unseen.evaluation import evaluate
from unseen.losses.margin import Margin
from unseen.miners.distance import DistanceWeighted
from unseen.models import Embedder, embed
from unseen.shifts.episodes import EPISODES, SHOTS, support_and_queries
from unseen.shifts.ladder import Ladder
from unseen.training.optimizers import Adam

SCORES = ("recall@1", "map@1000")


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """How the last layer is fine-tuned on the support images of an episode.

    Adam without weight decay, margin loss with a boundary ``beta`` that is not learnt, ``batch_size`` images per batch,
    2 per class, more where there are fewer classes. ``iterations`` maps shots to optimiser steps; the paper has none
    for 10 shots, which take those of 5.

    Reference:  Milbich et al., NeurIPS 2021, arXiv:2107.09562; the defaults are those of the authors' code
    """

    iterations: Mapping[int, int] = field(default_factory=lambda: {2: 1000, 5: 1500, 10: 1500})
    lr: float = 1e-4
    beta: float = 1.2
    batch_size: int = 112

    def __post_init__(self) -> None:
        for count in self.iterations.values():
            check_count("Adaptation", "iterations", count, at_least=0)
        check_above("Adaptation", "lr", self.lr, 0)
        check_above("Adaptation", "beta", self.beta, 0)
        check_count("Adaptation", "batch_size", self.batch_size, at_least=4)


@dataclass(frozen=True, kw_only=True)
class FewShotSettings:
    """What is measured: so many support images per class (2, 5 or 10) in so many episodes, before and after adaptation.

    ``seed`` draws batches and mined triplets; the support of an episode belongs to the ladder.
    """

    shots: int
    episodes: int = EPISODES
    adaptation: Adaptation = field(default_factory=Adaptation)
    scores: Sequence[str] = SCORES
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("few-shot", "shots", self.shots, SHOTS)
        check_count("few-shot", "episodes", self.episodes)


@dataclass(frozen=True)
class Estimate:
    """A mean over episodes and its 95 % interval by Student's t; a single value has no interval."""

    mean: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, values: ArrayLike) -> "Estimate":
        """The estimate from the values of all episodes."""
        numbers = np.asarray(values, np.float64)
        mean = float(numbers.mean())
        if len(numbers) < 2:
            return cls(mean, None, None)
        half = float(student.ppf(0.975, len(numbers) - 1) * numbers.std(ddof=1) / np.sqrt(len(numbers)))
        return cls(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Gain:
    """A score before and after adaptation on the same queries, and its relative change, (after - before) / before.

    ``share``, the relative change, is None where a score was 0 before.
    """

    zero_shot: Estimate
    few_shot: Estimate
    share: Estimate | None


@dataclass(frozen=True)
class FewShotResult:
    """The `Gain` of each score from adaptation, over how many episodes and classes.

    ``left_out`` counts the test classes that are too small for so many shots and two queries; ``distance`` is that of
    the test classes from the training classes, where it is known.
    """

    shots: int
    gains: dict[str, Gain]
    episodes: int
    classes: int
    left_out: int
    distance: float | None = None


def class_members(labels: np.ndarray) -> np.ndarray:
    """The positions of each class's images, one row per class; all classes have equally many."""
    counts = np.unique(labels, return_counts=True)[1]
    assert (counts == counts[0]).all(), "classes have different numbers of support images"
    return np.argsort(labels, kind="stable").reshape(len(counts), -1)


def draw_batch(members: np.ndarray, batch_size: int, key: int) -> np.ndarray:
    """Positions of a batch: random classes, 2 random images of each, none twice.

    With fewer classes than half the batch size, all classes are taken, with as many images as fit. One generator draws
    the whole batch: a sampler with a key for each class takes longer than the step that it serves.

    Shape:  members (classes, images) -> at most ``batch_size`` positions, class by class
    """
    generator = numpy_generator(key)
    count = min(batch_size // 2, len(members))
    per_class = min(max(2, batch_size // count), members.shape[1])
    chosen = members[generator.permutation(len(members))[:count]]
    order = generator.random(chosen.shape).argsort(axis=1)[:, :per_class]
    return np.take_along_axis(chosen, order, axis=1).ravel()


def adapt_head(
    head: nn.Module, features: Tensor, labels: np.ndarray, *, iterations: int, adaptation: Adaptation, seed: int
) -> nn.Module:
    """A copy of a head, fine-tuned on the features of support images; the head itself is not changed.

    Margin loss with distance-weighted mining, Adam without weight decay, batches of 2 images per class. All classes
    have equally many images. Adam scales each weight's step by itself, so steps do not stay in the span of the
    features: a step costs support x weights, and no Gram matrix can replace it.
    """
    members = class_members(labels)
    adapted = copy.deepcopy(head)
    adapted.requires_grad_(True).train()
    loss = Margin(beta=adaptation.beta, miner=DistanceWeighted())
    optimizer = Adam(lr=adaptation.lr, weight_decay=0.0).build([{"params": list(adapted.parameters())}])
    targets = torch.from_numpy(labels)
    for step in range(iterations):
        rows = torch.from_numpy(draw_batch(members, adaptation.batch_size, derive(seed, "few-shot batch", step)))
        optimizer.zero_grad(set_to_none=True)
        loss(adapted(features[rows]), targets[rows], key=derive(seed, "few-shot mining", step)).backward()
        optimizer.step()
    return adapted.eval()


def few_shot(
    features: Tensor,
    classes: Sequence[str] | np.ndarray,
    head: nn.Module,
    support: Mapping[str, Sequence[Sequence[int]]],
    settings: FewShotSettings,
    *,
    progress: Progress = no_progress,
) -> FewShotResult:
    """Zero-shot and few-shot scores over episodes, on the same queries.

    ``features`` (n, d) of the test images are the input of ``head``, which is copied for each episode; images of a
    class are in the order of the ladder file. ``support`` is class -> episode -> positions among the images of the
    class, as a ladder holds them.

    Raises:  DataError when fewer than two classes are large enough for so many shots
    """
    shots, episodes = settings.shots, settings.episodes
    if not any(parameter.numel() for parameter in head.parameters()):
        raise DataError("the model has no last layer to adapt", hint="Set an embedding size.")
    class_names, labels = np.unique(np.asarray(classes), return_inverse=True)
    features = features.detach().clone()  # leaves the inference mode that embeddings are made in
    by_class = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    members = {str(name): rows for name, rows in zip(class_names, by_class, strict=True)}
    large = [name for name in members if len(support[name][0]) >= shots]
    if len(large) < 2:
        raise DataError(
            f"fewer than 2 test classes have images for {shots} shots and 2 queries", hint="Use fewer shots."
        )
    available = min(len(support[name]) for name in large)
    if episodes > available:
        raise DataError(f"the ladder holds {available} episodes", got=episodes)
    values: dict[str, list[tuple[float, float]]] = {name: [] for name in settings.scores}
    for episode in range(episodes):
        parts = [support_and_queries(support[name], members[name], shots=shots, episode=episode) for name in large]
        supports, queries = (np.concatenate(side) for side in zip(*parts, strict=True))
        adapted = adapt_head(
            head,
            features[supports],
            labels[supports],
            iterations=settings.adaptation.iterations[shots],
            adaptation=settings.adaptation,
            seed=derive(settings.seed, "few-shot", shots, episode),
        )
        before, after = (
            _scores(model, features[queries], labels[queries], settings.scores) for model in (head, adapted)
        )
        for name in settings.scores:
            values[name].append((before[name], after[name]))
        progress(episode + 1, episodes, f"episode {episode + 1}")
    gains = {name: _gain(np.array(pairs)) for name, pairs in values.items()}
    return FewShotResult(shots, gains, episodes, len(large), len(members) - len(large))


def few_shot_on_rung(
    model: Embedder,
    items: CatalogueDataset,
    split: Split,
    ladder: Ladder,
    settings: FewShotSettings,
    *,
    workers: int = 0,
) -> FewShotResult:
    """The gain of adaptation for a trained model on a rung's split; its backbone is only read, in evaluation mode."""
    names = np.array(items.catalogue.class_names)[items.catalogue.labels[split.test]]
    features = embed(model.backbone, items, split.test, engine="torch", workers=workers)
    result = few_shot(features, names, model.head, ladder.support, settings)
    return replace(result, distance=split.facts.get("class_distance"))


def _scores(head: nn.Module, features: Tensor, labels: np.ndarray, scores: Sequence[str]) -> Mapping[str, float]:
    was_training = head.training
    head.eval()
    with torch.no_grad():
        embeddings = head(features)
    head.train(was_training)
    return evaluate(embeddings, labels, scores=list(scores), bootstrap=None)


def _gain(pairs: np.ndarray) -> Gain:
    before, after = pairs[:, 0], pairs[:, 1]
    share = Estimate.of((after - before) / before) if (before > 0).all() else None
    return Gain(Estimate.of(before), Estimate.of(after), share)
