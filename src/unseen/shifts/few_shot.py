"""Few-shot adaptation: what fine-tuning the last layer on a few images of each test class gains."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.stats import t as student
from torch import Tensor, nn

from unseen.core.checks import check_above, check_choice, check_count
from unseen.core.errors import DataError
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
    """How the last layer is fine-tuned on the support of an episode (SPEC 5.6).

    ==========  ===================================================================================
    iterations  shots -> steps of the optimiser; the paper has none for 10 shots, it takes those of 5
    lr          learning rate of Adam; there is no weight decay
    beta        boundary of the margin loss, which is not learnt
    batch_size  images of a batch, 2 of each class; more of each where there are fewer classes
    ==========  ===================================================================================
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

    ``share`` is None where a score was 0 before.
    """

    zero_shot: Estimate
    few_shot: Estimate
    share: Estimate | None


@dataclass(frozen=True)
class FewShot:
    """What adaptation gained: a `Gain` for each score, over how many episodes and classes.

    ``left_out`` counts the test classes that are too small for so many shots and two queries.
    """

    shots: int
    gains: dict[str, Gain]
    episodes: int
    classes: int
    left_out: int
    distance: float | None


def class_members(labels: np.ndarray) -> np.ndarray:
    """The positions of each class's images, a row for each class; classes have equally many."""
    counts = np.unique(labels, return_counts=True)[1]
    assert (counts == counts[0]).all(), "the classes of a support have unequal numbers of images"
    return np.argsort(labels, kind="stable").reshape(len(counts), -1)


def draw_batch(members: np.ndarray, batch_size: int, key: int) -> np.ndarray:
    """Positions of a batch: random classes, 2 random images of each, none twice (SPEC 3.1).

    With fewer classes than half the batch all of them come, with as many images as fit and are there. One generator
    draws the whole batch: a sampler with a key for each class takes longer than the step that it serves.

    Shape:  members (classes, images) -> at most ``batch_size`` positions, class by class
    """
    generator = numpy_generator(key)
    count = min(batch_size // 2, len(members))
    each = min(max(2, batch_size // count), members.shape[1])
    chosen = members[generator.permutation(len(members))[:count]]
    order = generator.random(chosen.shape).argsort(axis=1)[:, :each]
    return np.take_along_axis(chosen, order, axis=1).ravel()


def adapt_head(
    head: nn.Module, features: Tensor, labels: np.ndarray, *, iterations: int, how: Adaptation, seed: int
) -> nn.Module:
    """A copy of a head, fine-tuned on the features of a support; the head itself stays as it is.

    Margin loss with distance-weighted mining, Adam without weight decay, batches of 2 images of each class. Classes
    have equally many images. Adam moves each weight by its own measure, so steps do not stay in the span of the
    features: a step costs support x weights, and no Gram matrix can stand for it.
    """
    members = class_members(labels)
    adapted = copy.deepcopy(head)
    adapted.requires_grad_(True).train()
    loss = Margin(beta=how.beta, miner=DistanceWeighted())
    optimizer = Adam(lr=how.lr, weight_decay=0.0).build([{"params": list(adapted.parameters())}])
    targets = torch.from_numpy(labels)
    for step in range(iterations):
        rows = torch.from_numpy(draw_batch(members, how.batch_size, derive(seed, "few-shot batch", step)))
        optimizer.zero_grad(set_to_none=True)
        loss(adapted(features[rows]), targets[rows], key=derive(seed, "few-shot mining", step)).backward()
        optimizer.step()
    return adapted.eval()


def few_shot(
    features: Tensor,
    classes: Sequence[str] | np.ndarray,
    head: nn.Module,
    support: Mapping[str, Sequence[Sequence[int]]],
    *,
    shots: int,
    how: Adaptation | None = None,
    episodes: int = EPISODES,
    scores: Sequence[str] = SCORES,
    distance: float | None = None,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> FewShot:
    """Zero-shot and few-shot scores over episodes, on the same queries.

    ========  =============================================================================================
    features  what the head is given of the test images (n, d), from a backbone that is not trained
    classes   the name of each image's class; images of a class in the order of the ladder's file
    head      the last layer; it is copied for each episode
    support   class -> episode -> positions among the images of the class, as a ladder holds them
    shots     2, 5 or 10
    distance  of the test classes from the training classes; kept beside the gain
    tell      is given the number of episodes done
    ========  =============================================================================================

    Raises:  DataError when fewer than two classes are large enough for so many shots
    """
    check_choice("few_shot", "shots", shots, SHOTS)
    check_count("few_shot", "episodes", episodes)
    how = how or Adaptation()
    if not any(parameter.numel() for parameter in head.parameters()):
        raise DataError("the model has no last layer to adapt", hint="Use an embedding size.")
    names = np.asarray(classes)
    known, labels = np.unique(names, return_inverse=True)
    features = features.detach().clone()  # leaves the inference mode that embeddings are made in
    by_class = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    members = {str(name): rows for name, rows in zip(known, by_class, strict=True)}
    taking = [name for name in members if len(support[name][0]) >= shots]
    if len(taking) < 2:
        raise DataError(
            f"fewer than 2 test classes have images for {shots} shots and 2 queries", hint="Use fewer shots."
        )
    available = min(len(support[name]) for name in taking)
    if episodes > available:
        raise DataError(f"the ladder holds {available} episodes", got=episodes)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in scores}
    for episode in range(episodes):
        parts = [support_and_queries(support[name], members[name], shots=shots, episode=episode) for name in taking]
        supports, queries = (np.concatenate(side) for side in zip(*parts, strict=True))
        adapted = adapt_head(
            head,
            features[supports],
            labels[supports],
            iterations=how.iterations[shots],
            how=how,
            seed=derive(seed, "few-shot", shots, episode),
        )
        before, after = (_scores(each, features[queries], labels[queries], scores) for each in (head, adapted))
        for name in scores:
            found[name].append((before[name], after[name]))
        progress(episode + 1)
    gains = {name: _gain(np.array(pairs)) for name, pairs in found.items()}
    return FewShot(shots, gains, episodes, len(taking), len(members) - len(taking), distance)


def few_shot_on_rung(
    model: Embedder,
    items: CatalogueDataset,
    split: Split,
    ladder: Ladder,
    *,
    shots: int,
    how: Adaptation | None = None,
    episodes: int = EPISODES,
    scores: Sequence[str] = SCORES,
    seed: int = 0,
    workers: int = 0,
) -> FewShot:
    """What adaptation gains for a trained model on a rung's split; its backbone is only read, in evaluation mode."""
    names = np.array(items.catalogue.class_names)[items.catalogue.labels[split.test]]
    return few_shot(
        embed(model.backbone, items, split.test, workers=workers),
        names,
        model.head,
        ladder.support,
        shots=shots,
        how=how,
        episodes=episodes,
        scores=scores,
        distance=split.facts.get("class_distance"),
        seed=seed,
    )


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
