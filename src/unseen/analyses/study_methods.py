"""The trained methods of a finished study with their spectra: what the analyses of a study work on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.config import Record, hash_of
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest
from unseen.runs.run_spectra import RunSpectra, run_spectra
from unseen.studies import Store
from unseen.studies.runner import STORE
from unseen.studies.store import Result


def store_of(folder: Path) -> Path:
    """Where the results of a study lie.

    Raises:     DataError for a folder without a study
    """
    if not (folder / STORE).is_file():
        raise DataError(f"{folder} is no folder of a study", hint="Use what `unseen study` wrote.")
    return folder / STORE


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained cell: its seed, its complete settings, its score on unseen classes, its spectra on training classes."""

    seed: int
    config: Record
    score: float
    spectra: RunSpectra


@dataclass(frozen=True, eq=False)
class Method:
    """A method on one split of one data set, with a cell for each seed."""

    data: str
    split: str
    name: str
    cells: tuple[Trained, ...]

    @property
    def place(self) -> tuple[str, str]:
        """The data set and the split."""
        return self.data, self.split

    @property
    def config(self) -> Record:
        """The settings that all seeds share."""
        return {key: value for key, value in self.cells[0].config.items() if key != "seed"}

    @property
    def scores(self) -> np.ndarray:
        """The score of each seed."""
        return np.array([cell.score for cell in self.cells])

    @property
    def rhos(self) -> np.ndarray:
        """The spectral decay of each seed."""
        return np.array([cell.spectra.rho for cell in self.cells])

    @property
    def width(self) -> int:
        """Dimensions of the embedding."""
        return len(self.cells[0].spectra.values)


@dataclass(frozen=True, eq=False)
class Studied:
    """A study's trained methods, in its order, and the score that they are compared by."""

    title: str
    score: str
    methods: tuple[Method, ...]

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """Every (data set, split) there is."""
        return tuple(dict.fromkeys(method.place for method in self.methods))

    def name_of(self, method: Method) -> str:
        """The method's name, with where it was measured if the study has several places."""
        return method.name if len(self.places) == 1 else f"{method.name} ({method.data}, {method.split})"


def read_study(folder: Path, score: str, progress: Callable[[int, int], None] = lambda done, total: None) -> Studied:
    """The finished, trained cells of a study; spectra that no analysis asked for before are computed.

    Raises:     DataError for a folder without a study or without trained cells; ConfigError for an unknown score
    """
    with Store(store_of(folder)) as store:
        plan, results = store.plan(), store.results()
    trained = [result for result in results if result.content["protocol"]["epochs"] > 0]
    if not trained:
        raise DataError(f"no trained cell of {folder} is finished", hint="Use a study that trains, run to its end.")
    known = list(trained[0].content["scores"]["numbers"])
    if score not in known:
        raise ConfigError(f"the study has no score '{score}'{nearest(score, known)} (it has: {', '.join(known)})")
    groups: dict[tuple[str, str, str], list[Trained]] = {}
    for done, result in enumerate(trained):
        progress(done, len(trained))
        cell = result.cell
        groups.setdefault((cell.data, cell.split, cell.method), []).append(_trained(result, folder, score))
    progress(len(trained), len(trained))
    methods = tuple(Method(*labels, tuple(cells)) for labels, cells in groups.items())
    return Studied(plan.get("title", folder.name), score, methods)


def _trained(result: Result, folder: Path, score: str) -> Trained:
    spectra = run_spectra(folder / "cells" / result.cell.name)
    return Trained(result.cell.seed, result.cell.config, result.content["scores"]["numbers"][score], spectra)


@dataclass(frozen=True)
class Treatment:
    """Something that is added to a method; `without` gives the settings without it, or None where it is not there.

    `study` is a study that ships and has methods with and without it.
    """

    name: str
    study: str
    without: Callable[[Record], Record | None]


@dataclass(frozen=True, eq=False)
class Pair:
    """A method without and with a treatment, all other settings being equal."""

    without: Method
    treated: Method

    def difference(self, of: Callable[[Trained], float]) -> np.ndarray:
        """Treated minus un-treated, for each seed that both have."""
        before = {cell.seed: of(cell) for cell in self.without.cells}
        return np.array([of(cell) - before[cell.seed] for cell in self.treated.cells if cell.seed in before])


def p_switch_of(config: Any) -> float:
    """The share of triplets that push inside a class; 0 without rho-regularisation."""
    if isinstance(config, Mapping):
        own = config.get("p_switch")
        return float(own) if own is not None else max((p_switch_of(value) for value in config.values()), default=0.0)
    return 0.0


def without_switch(config: Record) -> Record | None:
    """The settings with plain distance-weighted mining, or None where nothing is switched."""
    return _plain_miner(config) if p_switch_of(config) > 0 else None


def _plain_miner(config: Any) -> Any:
    if not isinstance(config, Mapping):
        return config
    if config.get("name") == "rho_distance":
        return {**{key: value for key, value in config.items() if key != "p_switch"}, "name": "distance"}
    return {key: _plain_miner(value) for key, value in config.items()}


def without_mixup(config: Record) -> Record | None:
    """The settings with the plain method, or None where nothing is mixed."""
    return {**config, "method": {"name": "plain"}} if config["method"]["name"] == "mixup" else None


REGULARISED = Treatment("rho-regularisation", "regularisation", without_switch)
MIXED = Treatment("mixup", "mixup", without_mixup)


def pairs_of(studied: Studied, treatment: Treatment) -> list[Pair]:
    """Every treated method beside the one that differs from it by the treatment alone."""
    plain = {hash_of(_plain_miner_at_0(method.config)): method for method in studied.methods}
    found = []
    for method in studied.methods:
        config = treatment.without(method.config)
        partner = None if config is None else plain.get(hash_of(config))
        if partner is not None:
            found.append(Pair(partner, method))
    return found


def _plain_miner_at_0(config: Record) -> Record:
    # A rho-distance miner that never switches is distance-weighted mining.
    return config if p_switch_of(config) > 0 else _plain_miner(config)


def some_pairs_of(studied: Studied, treatment: Treatment) -> list[Pair]:
    """What `pairs_of` finds, if it finds any.

    Raises:     DataError for a study without a pair
    """
    pairs = pairs_of(studied, treatment)
    if not pairs:
        raise DataError(
            f"the study has no method both with and without {treatment.name}, all else being equal",
            hint=f"Use a study such as `{treatment.study}` (unseen list studies).",
        )
    return pairs
