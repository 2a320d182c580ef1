"""The trained methods of a finished study with their scores and spectra."""

from dataclasses import dataclass

import numpy as np

from unseen.analyses.base import AnalysisInputs
from unseen.analyses.spectral.run_spectra import RunSpectra, run_spectra
from unseen.core.config import Record
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest


@dataclass(frozen=True, eq=False)
class TrainedCell:
    """A trained cell: its seed, its settings, its score on unseen classes and its spectra on training classes."""

    seed: int
    config: Record
    score: float
    spectra: RunSpectra

    @property
    def rho(self) -> float:
        """The spectral decay."""
        return self.spectra.rho


@dataclass(frozen=True, eq=False)
class TrainedMethod:
    """A method on one split of one data set, with a cell for each seed."""

    data: str
    split: str
    name: str
    cells: tuple[TrainedCell, ...]

    @property
    def benchmark(self) -> tuple[str, str]:
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
        return np.array([cell.rho for cell in self.cells])

    @property
    def width(self) -> int:
        """Dimensions of the embedding."""
        return len(self.cells[0].spectra.values)


@dataclass(frozen=True, eq=False)
class TrainedMethods:
    """A study's trained methods, in its order, and the score that they are compared by."""

    score: str
    methods: tuple[TrainedMethod, ...]

    @property
    def benchmarks(self) -> tuple[tuple[str, str], ...]:
        """Every (data set, split) of the study."""
        return tuple(dict.fromkeys(method.benchmark for method in self.methods))

    def on(self, benchmark: tuple[str, str]) -> list[TrainedMethod]:
        """The methods on one split of one data set."""
        return [method for method in self.methods if method.benchmark == benchmark]

    def name_of(self, method: TrainedMethod) -> str:
        """The method's name, with data set and split where the study has several."""
        return method.name if len(self.benchmarks) == 1 else f"{method.name} ({method.data}, {method.split})"


def read_trained_methods(inputs: AnalysisInputs, score: str) -> TrainedMethods:
    """The finished, trained cells of a study; spectra that no analysis has needed before are computed.

    Raises:     DataError for a folder without a study or without trained cells; ConfigError for an unknown score
    """
    with inputs.open_store() as store:
        trained = [result for result in store.results() if result.content["protocol"]["epochs"] > 0]
    if not trained:
        raise DataError(
            f"no trained cell of {inputs.folder} is finished", hint="Use a study that trains, and run it to its end."
        )
    scores = list(trained[0].content["scores"]["numbers"])
    if score not in scores:
        raise ConfigError(f"the study has no score '{score}'{nearest(score, scores)} (it has: {', '.join(scores)})")
    groups: dict[tuple[str, str, str], list[TrainedCell]] = {}
    for done, result in enumerate(trained):
        cell = result.cell
        inputs.progress(done, len(trained), f"spectra of {cell.method}")
        spectra = run_spectra(inputs.folder / "cells" / cell.name, cache=inputs.cache)
        value = result.content["scores"]["numbers"][score]
        trained_cell = TrainedCell(cell.seed, cell.config, value, spectra)
        groups.setdefault((cell.data, cell.split, cell.method), []).append(trained_cell)
    inputs.progress(len(trained), len(trained), "")
    return TrainedMethods(score, tuple(TrainedMethod(*labels, tuple(cells)) for labels, cells in groups.items()))


def mean_and_deviation(values: np.ndarray) -> tuple[float, float]:
    """Mean and population standard deviation over seeds, as the papers report them."""
    return float(values.mean()), float(values.std())
