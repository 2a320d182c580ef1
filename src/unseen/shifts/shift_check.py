"""Shift check: how far deployment data are from training data, and what that means for recall."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from unseen.core.checks import check_count
from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.core.progress import Progress, no_progress
from unseen.data import Catalogue, split_catalogue
from unseen.evaluation.frechet import moments
from unseen.models import initialize_linear_head
from unseen.shifts.build import LadderSettings, build_ladder
from unseen.shifts.episodes import draw_support
from unseen.shifts.few_shot import Adaptation, FewShotResult, FewShotSettings, few_shot
from unseen.shifts.ladder import Ladder, LadderSource, Rung
from unseen.shifts.recall_forecast import (
    ExpectedRecall,
    Recall,
    ScoredRung,
    SpreadEffect,
    chance_rate,
    forecast_recall,
    gallery_recall,
    spread_effect,
    spread_of,
    spread_of_fewer,
)
from unseen.shifts.small_sample_distance import CorrectedDistance, corrected_distance
from unseen.shifts.steps import SwapSchedule

RUNGS = 7
HEAD_WIDTH = 512

Features = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class DeploymentData:
    """Features of deployment data, and the class of each row where it is known."""

    name: str
    features: Features
    labels: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class ShiftCheckInputs:
    """Training and deployment data by one model: features of the catalogue's items and of deployment.

    A trained ``head`` makes embeddings of features; None scores the features themselves. No recall is measured on the
    classes it has ``seen`` in training. ``scored_by`` is the name of the model.
    """

    catalogue: Catalogue
    features: Features
    deployed: DeploymentData
    head: nn.Module | None = None
    seen: Collection[str] = ()
    scored_by: str = "the untrained backbone"

    def rows_of(self, names: Iterable[str], *, only_unseen: bool = False) -> NDArray[np.int64]:
        """The rows of the training data that belong to these classes."""
        wanted = set(names) - set(self.seen if only_unseen else ())
        is_wanted = np.array([name in wanted for name in self.catalogue.class_names])
        return np.flatnonzero(is_wanted[self.catalogue.labels])

    def embed(self, features: Features) -> Features:
        """The embeddings that recall is measured on."""
        rows = np.asarray(features, np.float32)
        if self.head is None:
            return rows
        with torch.no_grad():
            return np.asarray(self.head.eval()(torch.from_numpy(rows)))


@dataclass(frozen=True, kw_only=True)
class ShiftCheckSettings:
    """How a shift is checked: by which ladder of the training data, and by which few-shot adaptation.

    ``classes`` is the number of deployment classes, where there are no labels and it is known nevertheless;
    ``dimensions`` measures along so many leading principal directions of the training data, for few deployment rows.
    """

    classes: int | None = None
    dimensions: int | None = None
    rungs: int = RUNGS
    schedule: SwapSchedule = field(default_factory=SwapSchedule)
    shots: int = 5
    episodes: int = 3
    adaptation: Adaptation = field(default_factory=Adaptation)
    seed: int = 0

    @property
    def total(self) -> int:
        """Steps of progress: the ladder, its rungs, and adaptation on two rungs and on deployment at most."""
        return self.rungs + 4 + 3 * self.episodes

    def __post_init__(self) -> None:
        check_count("shift-check", "episodes", self.episodes, at_least=0)
        if self.dimensions is not None:
            check_count("shift-check", "dimensions", self.dimensions)


@dataclass(frozen=True)
class AdaptationGain:
    """The gain of few-shot adaptation on a rung; on the deployment data themselves where ``rung`` is None."""

    rung: int | None
    result: FewShotResult


@dataclass(frozen=True, kw_only=True)
class ShiftCheck:
    """The result of a shift check.

    ============  ================================================================================================
    distance      corrected Frechet distance of all training and all deployment rows
    chance        the part of it that so many classes have by chance (see `shifts.recall_forecast`)
    shift         the distance without it: what is compared with the rungs
    classes       number of classes per gallery; ``classes_known`` says whether deployment really has so many
    per_class     images per class at most: as many as deployment has on average, where that is known
    rungs         the rungs of the training data that could be measured; ``left_out`` counts those with too few rows
                  for a distance or too few unseen classes for such a gallery
    spread        of deployment embeddings, for that many classes: the smaller, the more crowded they are
    crowded       how recall depends on spread in the training data; None where its classes are too few to tell
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
    crowded: SpreadEffect | None
    expected: ExpectedRecall
    measured: Recall | None
    adapted: tuple[AdaptationGain, ...]

    @property
    def gallery(self) -> str:
        """The size of the galleries, in words."""
        return f"{self.classes} classes" + ("" if self.per_class is None else f" of {self.per_class} images")

    def to_mapping(self) -> Record:
        """The check as plain values."""
        gains = tuple({"rung": gain.rung, "found": asdict(gain.result)} for gain in self.adapted)
        return asdict(self) | {"adapted": gains}


def check_shift(
    inputs: ShiftCheckInputs, settings: ShiftCheckSettings | None = None, *, progress: Progress = no_progress
) -> ShiftCheck:
    """Measure how far deployment data are from training data, and forecast recall from a ladder of the training data.

    Raises:  DataError where a sample is too small for a distance, or too few rungs can be measured
    """
    settings = settings or ShiftCheckSettings()
    catalogue, deployed, rungs = inputs.catalogue, inputs.deployed, settings.rungs
    known = _number_of_classes(inputs, settings)
    total = settings.total
    progress(0, total, "distance")
    train, test = _leading_directions(inputs.features, deployed.features, settings.dimensions)
    distance = corrected_distance(train, test, seed=settings.seed)
    progress(1, total, "ladder")
    start = split_catalogue(catalogue, "fraction:train=0.5,validation=0")
    ladder_settings = LadderSettings(schedule=settings.schedule, rungs=rungs, samples=0, seed=settings.seed)
    ladder = build_ladder(LadderSource(catalogue, train), start, ladder_settings)
    progress(2, total, "random halves")
    rate = chance_rate(train, catalogue.labels, seed=settings.seed)
    # Recalls are compared in galleries of one size: that of the deployment data, if half of the rungs have so many.
    unseen = [len(set(rung.test) - set(inputs.seen)) for rung in ladder.rungs]
    classes = min(int(np.median(unseen)), len(catalogue.class_names) if known is None else known)
    per_class = None if known is None else max(2, round(len(deployed.features) / known))
    gallery = _Gallery(inputs, inputs.embed(inputs.features), classes, per_class, settings.seed)
    scored: list[ScoredRung] = []
    for number, rung in enumerate(ladder.rungs, start=1):
        progress(2 + number, total, f"rung {number}")
        if unseen[number - 1] >= max(2, classes):
            scored += _score_rung(gallery, train, number, rung, rate)
    if len(scored) < 2:
        raise DataError(
            "fewer than 2 rungs of the training data have enough samples and unseen classes",
            hint="Use more training data, or fewer --dimensions.",
        )
    chance = rate * (1 / len(catalogue.class_names) + 1 / (known or classes))
    progress(rungs + 3, total, "crowded galleries")
    effect, spread, measured = gallery.compare_with_deployment(known)
    expected = forecast_recall(scored, distance.value - chance, classes=classes, spread=spread, effect=effect)
    adapted = _adaptation_gains(inputs, settings, ladder, expected.near, progress)
    progress(total, total, "done")
    return ShiftCheck(
        train=catalogue.name,
        test=deployed.name,
        scored_by=inputs.scored_by,
        distance=distance,
        chance=chance,
        shift=distance.value - chance,
        classes=classes,
        per_class=per_class,
        classes_known=known is not None,
        rungs=tuple(scored),
        left_out=rungs - len(scored),
        spread=spread,
        crowded=effect,
        expected=expected,
        measured=measured,
        adapted=tuple(adapted),
    )


def _number_of_classes(inputs: ShiftCheckInputs, settings: ShiftCheckSettings) -> int | None:
    """The number of deployment classes, where it is known; refuses inputs that cannot be compared."""
    deployed = inputs.deployed
    widths = inputs.features.shape[1], deployed.features.shape[1]
    if widths[0] != widths[1]:
        raise DataError("training and deployment features must have the same width", got=f"{widths[0]} and {widths[1]}")
    known = settings.classes if deployed.labels is None else len(np.unique(deployed.labels))
    if known is not None and known < 2:
        raise DataError(f"{deployed.name} has a single class, so its labels say nothing", hint="Use --no-labelled.")
    return known


def _leading_directions(one: Features, two: Features, dimensions: int | None) -> tuple[Features, Features]:
    """Both sets along the leading principal directions of the first, the same for every comparison of a check."""
    if dimensions is None or dimensions >= one.shape[1]:
        return one, two
    directions = np.linalg.eigh(moments(one).covariance)[1][:, -dimensions:]
    return np.asarray(one, np.float64) @ directions, np.asarray(two, np.float64) @ directions


@dataclass(frozen=True, eq=False)
class _Gallery:
    """Galleries of one size, in which all recalls of a check are measured."""

    inputs: ShiftCheckInputs
    embeddings: Features
    classes: int
    per_class: int | None
    seed: int

    def recall(self, rows: NDArray[np.int64]) -> Recall:
        """The recall on rows of the training data."""
        labels = self.inputs.catalogue.labels[rows]
        return gallery_recall(
            self.embeddings[rows], labels, classes=self.classes, per_class=self.per_class, seed=self.seed
        )

    def compare_with_deployment(self, known: int | None) -> tuple[SpreadEffect | None, float, Recall | None]:
        """How recall depends on spread in the training data; spread and, with labels, recall of deployment."""
        catalogue, deployed = self.inputs.catalogue, self.inputs.deployed
        embeddings = self.inputs.embed(deployed.features)
        rows = self.inputs.rows_of(catalogue.class_names, only_unseen=True)
        unseen, labels = self.embeddings[rows], catalogue.labels[rows]
        effect = spread_effect(unseen, labels, classes=self.classes, per_class=self.per_class, seed=self.seed)
        within = spread_of(unseen, labels)
        spread = spread_of_fewer(spread_of(embeddings), within, classes=known or self.classes, fewer=self.classes)
        if deployed.labels is None:
            return effect, spread, None
        # Galleries of no more images than those of the rungs; where training classes are smaller, so are these.
        most = min(self.per_class or 2, max(2, round(len(self.inputs.features) / len(catalogue.class_names))))
        recall = gallery_recall(embeddings, deployed.labels, classes=self.classes, per_class=most, seed=self.seed)
        return effect, spread, recall


def _score_rung(gallery: _Gallery, features: Features, number: int, rung: Rung, rate: float) -> list[ScoredRung]:
    """A rung with its distance and recall; empty where it has too few rows."""
    inputs, train_side = gallery.inputs, [*rung.train, *rung.validation]
    train, test = (inputs.rows_of(names) for names in (train_side, rung.test))
    try:
        distance = corrected_distance(features[train], features[test], seed=gallery.seed).value
    except DataError:
        return []
    chance = rate * (1 / len(train_side) + 1 / len(rung.test))
    recall = gallery.recall(inputs.rows_of(rung.test, only_unseen=True))
    others = inputs.rows_of(train_side, only_unseen=True)
    has_others = len(np.unique(inputs.catalogue.labels[others])) >= max(2, gallery.classes)
    return [ScoredRung(number, distance, distance - chance, recall, gallery.recall(others) if has_others else None)]


def _adaptation_gains(
    inputs: ShiftCheckInputs, settings: ShiftCheckSettings, ladder: Ladder, near: Sequence[int], progress: Progress
) -> list[AdaptationGain]:
    """The gains on the rungs next to the shift and on labelled deployment data, where classes are large enough."""
    if settings.episodes == 0:
        return []
    head = inputs.head or _identity_head(inputs.features)
    few_shot_settings = FewShotSettings(
        shots=settings.shots, episodes=settings.episodes, adaptation=settings.adaptation, seed=settings.seed
    )
    targets: list[tuple[int | None, Features, NDArray[np.str_], Record]] = []
    for number in near:
        rows = inputs.rows_of(ladder.rungs[number - 1].test, only_unseen=True)
        names = np.array(inputs.catalogue.class_names)[inputs.catalogue.labels[rows]]
        targets.append((number, inputs.features[rows], names, ladder.support))
    if inputs.deployed.labels is not None:
        names = inputs.deployed.labels.astype(np.str_)
        support = draw_support(Counter(names.tolist()), seed=settings.seed)
        targets.append((None, inputs.deployed.features, names, support))
    gains = []
    for index, (rung, features, names, support) in enumerate(targets):
        start = settings.rungs + 4 + index * settings.episodes
        message = "adapting to deployment" if rung is None else f"adapting to rung {rung}"
        progress(start, settings.total, message)
        inputs_of_head = torch.from_numpy(np.asarray(features, np.float32))

        def on_episode(done: int, _total: int, _words: str, *, start: int = start, message: str = message) -> None:
            progress(start + done, settings.total, message)

        # Classes may have too few images for so many shots: then there is no gain, but the check has other results.
        with suppress(DataError):
            result = few_shot(inputs_of_head, names, head, support, few_shot_settings, progress=on_episode)
            gains.append(AdaptationGain(rung, result))
    return gains


def _identity_head(features: Features) -> nn.Module:
    """A linear layer that begins as a projection of the features: what is adapted above an untrained backbone."""
    width = features.shape[1]
    head = nn.utils.skip_init(nn.Linear, width, min(HEAD_WIDTH, width))
    initialize_linear_head(head, torch.from_numpy(np.asarray(features, np.float32)), "identity")
    return head
