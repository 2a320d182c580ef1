"""A check of a shift: how far deployment data lie from training data, and what that means for recall."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn

from unseen.core.checks import check_count
from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.data import Catalogue, split_catalogue
from unseen.evaluation.frechet import moments
from unseen.models import initialize_linear_head
from unseen.shifts.build import build_ladder
from unseen.shifts.episodes import draw_support
from unseen.shifts.few_shot import Adaptation, FewShot, few_shot
from unseen.shifts.ladder import Ladder
from unseen.shifts.recall_forecast import (
    Crowding,
    Expected,
    Recall,
    ScoredRung,
    chance_rate,
    crowding,
    expect,
    gallery_recall,
    spread_of,
    spread_of_fewer,
    spread_within,
)
from unseen.shifts.small_sample_distance import CorrectedDistance, corrected_distance
from unseen.shifts.steps import Walk

Progress = Callable[[int, int, str], None]

RUNGS = 7
HEAD_WIDTH = 512


@dataclass(frozen=True, eq=False)
class Deployed:
    """Features of deployment data, and the class of each row where it is known."""

    name: str
    features: np.ndarray
    labels: np.ndarray | None = None

    @property
    def classes(self) -> int | None:
        """How many classes there are, where that is known."""
        return None if self.labels is None else len(np.unique(self.labels))


@dataclass(frozen=True, kw_only=True)
class Adapted:
    """What few-shot adaptation gained on a rung; on the deployment data themselves where ``rung`` is None."""

    rung: int | None
    found: FewShot


@dataclass(frozen=True, kw_only=True)
class ShiftCheck:
    """What a check found.

    ============  ================================================================================================
    distance      corrected Frechet distance of all training and all deployment rows
    chance        the part of it that so many classes have by chance (see `shifts.expecting`)
    shift         the distance without it: what is compared with the rungs
    classes       of the galleries that recalls speak of; ``classes_known`` says whether deployment really has so many
    per_class     images of each at most: as many as deployment has on average, where that is known
    rungs         the ladder of the training data that could be measured; ``left_out`` counts those with too few rows
                  for a distance or too few unseen classes for such a gallery
    spread        of deployment embeddings, brought to that many classes: the smaller, the more crowded they are
    crowded       how recall follows spread in the training data; None where its classes are too few to progress
    expected      recall@1 to expect at that shift and spread
    measured      recall@1 on the deployment data, where their labels are known
    adapted       few-shot adaptation, on the rungs next to the shift and on labelled deployment data
    ============  ================================================================================================
    """

    train: str
    test: str
    scored_by: str
    distance: CorrectedDistance
    chance: float
    shift: float
    classes: int
    per_class: int | None
    classes_known: bool
    rungs: tuple[ScoredRung, ...]
    left_out: int
    spread: float
    crowded: Crowding | None
    expected: Expected
    measured: Recall | None
    adapted: tuple[Adapted, ...]

    @property
    def gallery(self) -> str:
        """The size of the galleries that recalls speak of, in words."""
        return f"{self.classes} classes" + ("" if self.per_class is None else f" of {self.per_class} images")

    def to_mapping(self) -> Record:
        """The check as plain values."""
        return asdict(self)


def check_shift(
    catalogue: Catalogue,
    features: np.ndarray,
    deployed: Deployed,
    *,
    head: nn.Module | None = None,
    seen: Collection[str] = (),
    scored_by: str = "the un-trained backbone",
    classes: int | None = None,
    dimensions: int | None = None,
    rungs: int = RUNGS,
    walk: Walk | None = None,
    shots: int = 5,
    episodes: int = 3,
    how: Adaptation | None = None,
    seed: int = 0,
    progress: Progress = lambda done, total, words: None,
) -> ShiftCheck:
    """How far deployment data lie from training data, where on a ladder of the training data that is, and what follows.

    ==========  ===============================================================================================
    features    of the training data, a row for each item of the catalogue
    head        what makes embeddings of features, a trained run's; None scores the features themselves
    seen        classes that the head was trained on: no recall is measured on them
    classes     of the deployment data, where it has no labels and this is known nevertheless
    dimensions  measure along so many leading directions of the training data, for few deployment rows
    shots       2, 5 or 10
    episodes    of few-shot adaptation; 0 for none
    ==========  ===============================================================================================

    Raises:  DataError where a sample is too small for a distance, or too few rungs can be measured
    """
    check_count("shift-check", "episodes", episodes, at_least=0)
    if features.shape[1] != deployed.features.shape[1]:
        raise DataError(
            "training and deployment features must have one width",
            got=f"{features.shape[1]} and {deployed.features.shape[1]}",
        )
    known = deployed.classes if deployed.labels is not None else classes
    if known is not None and known < 2:
        raise DataError(f"{deployed.name} has a single class, so its labels say nothing", hint="Use --no-labelled.")
    total = rungs + 4 + 3 * episodes  # adaptation on two rungs and on deployment at most
    progress(0, total, "distance")
    near, far = _along_leading(features, deployed.features, dimensions)
    distance = corrected_distance(near, far, seed=seed)
    progress(1, total, "ladder")
    start = split_catalogue(catalogue, "fraction:train=0.5,validation=0")
    ladder = build_ladder(catalogue, near, start, walk=walk, rungs=rungs, samples=0, seed=seed)
    progress(2, total, "random halves")
    rate = chance_rate(near, catalogue.labels, seed=seed)
    # Recalls are compared in galleries of one size: that of the deployment data, if half of the rungs have so many.
    unseen = [len(set(rung.test) - set(seen)) for rung in ladder.rungs]
    gallery = min(int(np.median(unseen)), len(catalogue.class_names) if known is None else known)
    per_class = None if known is None else max(2, round(len(deployed.features) / known))
    embeddings = _embedded(features, head)
    scored = []
    for number in range(1, rungs + 1):
        progress(2 + number, total, f"rung {number}")
        if unseen[number - 1] >= max(2, gallery):
            found = _scored(
                catalogue,
                near,
                embeddings,
                ladder,
                number,
                rate=rate,
                classes=gallery,
                per_class=per_class,
                seen=seen,
                seed=seed,
            )
            scored += [] if found is None else [found]
    if len(scored) < 2:
        raise DataError(
            "fewer than 2 rungs of the training data have samples and unseen classes enough",
            hint="Use more training data, or fewer --dimensions.",
        )
    chance = rate * (1 / len(catalogue.class_names) + 1 / (known or gallery))
    shift = distance.value - chance
    progress(rungs + 3, total, "crowded galleries")
    rows = _embedded(deployed.features, head)
    own = _rows_of(catalogue, catalogue.class_names, seen)
    crowded = crowding(embeddings[own], catalogue.labels[own], classes=gallery, per_class=per_class, seed=seed)
    within = spread_within(embeddings[own], catalogue.labels[own])
    spread = spread_of_fewer(spread_of(rows), within, classes=known or gallery, fewer=gallery)
    expected = expect(scored, shift, classes=gallery, spread=spread, crowded=crowded)
    measured = None
    if deployed.labels is not None:
        # Galleries of no more images than those of the rungs; where training classes are smaller, so are these.
        most = min(per_class or 2, max(2, round(len(features) / len(catalogue.class_names))))
        measured = gallery_recall(rows, deployed.labels, classes=gallery, per_class=most, seed=seed)
    adapted = []
    if episodes:
        last = head or _head_on(features)
        settings = {"shots": shots, "episodes": episodes, "how": how, "seed": seed}
        adapted = _adapted(
            catalogue,
            features,
            deployed,
            ladder,
            last,
            expected.near,
            seen,
            settings,
            lambda done, words: progress(rungs + 4 + done, total, words),
        )
    progress(total, total, "done")
    return ShiftCheck(
        train=catalogue.name,
        test=deployed.name,
        scored_by=scored_by,
        distance=distance,
        chance=chance,
        shift=shift,
        classes=gallery,
        per_class=per_class,
        classes_known=known is not None,
        rungs=tuple(scored),
        left_out=rungs - len(scored),
        spread=spread,
        crowded=crowded,
        expected=expected,
        measured=measured,
        adapted=tuple(adapted),
    )


def _along_leading(one: np.ndarray, two: np.ndarray, dimensions: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Both sets along the leading principal directions of the first, the same for every comparison of a check."""
    if dimensions is None or dimensions >= one.shape[1]:
        return one, two
    check_count("shift-check", "dimensions", dimensions)
    directions = np.linalg.eigh(moments(one).covariance)[1][:, -dimensions:]
    return np.asarray(one, np.float64) @ directions, np.asarray(two, np.float64) @ directions


def _embedded(features: np.ndarray, head: nn.Module | None) -> np.ndarray:
    rows = np.asarray(features, np.float32)
    if head is None:
        return rows
    with torch.no_grad():
        return head.eval()(torch.from_numpy(rows)).numpy()


def _head_on(features: np.ndarray) -> nn.Module:
    """A linear layer that begins as a projection of the features: what an un-trained backbone is adapted by."""
    width = features.shape[1]
    head = nn.utils.skip_init(nn.Linear, width, min(HEAD_WIDTH, width))
    initialize_linear_head(head, torch.from_numpy(np.asarray(features, np.float32)), "identity")
    return head


def _rows_of(catalogue: Catalogue, names: Sequence[str], without: Collection[str] = ()) -> np.ndarray:
    wanted = set(names) - set(without)
    return np.flatnonzero(np.array([name in wanted for name in catalogue.class_names])[catalogue.labels])


def _scored(
    catalogue: Catalogue,
    features: np.ndarray,
    embeddings: np.ndarray,
    ladder: Ladder,
    number: int,
    *,
    rate: float,
    classes: int,
    per_class: int | None,
    seen: Collection[str],
    seed: int,
) -> ScoredRung | None:
    """A rung with its distance and recall; None where it has too few rows."""
    rung = ladder.rungs[number - 1]
    train, test = (_rows_of(catalogue, names) for names in ([*rung.train, *rung.validation], rung.test))
    unseen = _rows_of(catalogue, rung.test, seen)
    try:
        distance = corrected_distance(features[train], features[test], seed=seed).value
    except DataError:
        return None
    chance = rate * (1 / (len(rung.train) + len(rung.validation)) + 1 / len(rung.test))
    recall = gallery_recall(
        embeddings[unseen], catalogue.labels[unseen], classes=classes, per_class=per_class, seed=seed
    )
    others = _rows_of(catalogue, [*rung.train, *rung.validation], seen)
    other = None
    if len(np.unique(catalogue.labels[others])) >= max(2, classes):
        other = gallery_recall(
            embeddings[others], catalogue.labels[others], classes=classes, per_class=per_class, seed=seed
        )
    return ScoredRung(number, distance, distance - chance, recall, other)


def _adapted(
    catalogue: Catalogue,
    features: np.ndarray,
    deployed: Deployed,
    ladder: Ladder,
    head: nn.Module,
    near: Sequence[int],
    seen: Collection[str],
    settings: Record,
    progress: Callable[[int, str], None],
) -> list[Adapted]:
    """The gains on the rungs next to the shift and on labelled deployment data, where classes are large enough."""
    found = []
    for place, number in enumerate(near):
        rows = _rows_of(catalogue, ladder.rungs[number - 1].test, seen)
        names = np.array(catalogue.class_names)[catalogue.labels[rows]]
        own = settings | {"progress": _from(place * settings["episodes"], f"adapting to rung {number}", progress)}
        found += _gain(number, features[rows], names, head, ladder.support, own)
    if deployed.labels is not None:
        names = deployed.labels.astype(np.str_)
        sizes = dict(zip(*(each.tolist() for each in np.unique(names, return_counts=True)), strict=True))
        support = draw_support(sizes, seed=settings["seed"])
        own = settings | {"progress": _from(len(near) * settings["episodes"], "adapting to deployment", progress)}
        found += _gain(None, deployed.features, names, head, support, own)
    return found


def _from(start: int, words: str, progress: Callable[[int, str], None]) -> Callable[[int], None]:
    """What an adaptation tells its episodes to, each a step of the whole."""
    progress(start, words)
    return lambda done: progress(start + done, words)


def _gain(
    rung: int | None, features: np.ndarray, names: np.ndarray, head: nn.Module, support: Record, settings: Record
) -> list[Adapted]:
    try:
        gain = few_shot(torch.from_numpy(np.asarray(features, np.float32)), names, head, support, **settings)
    except DataError:  # classes of too few images for so many shots: there is no answer, and the check has others
        return []
    return [Adapted(rung=rung, found=gain)]
