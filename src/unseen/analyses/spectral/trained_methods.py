"""The trained methods of a finished study with their scores and spectra."""

from dataclasses import dataclass

import numpy as np

from unseen.analyses.base import AnalysisInputs
from unseen.analyses.spectral.run_spectra import RunSpectra, run_spectra
from unseen.core.config import Record
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest
from unseen.studies.store import Result


@dataclass(frozen=True, eq=False)
class TrainedMethod:
    """A method on one split of one data set: its settings, and by seed its score and its spectra.

    Scores are those on unseen classes, spectra those on training classes.
    """

    data: str
    split: str
    name: str
    config: Record
    seeds: tuple[int, ...]
    scores: np.ndarray
    spectra: tuple[RunSpectra, ...]

    @property
    def benchmark(self) -> tuple[str, str]:
        """The data set and the split."""
        return self.data, self.split

    @property
    def rhos(self) -> np.ndarray:
        """The spectral decay of each seed."""
        return np.array([spectra.rho for spectra in self.spectra])

    @property
    def width(self) -> int:
        """Dimensions of the embedding."""
        return len(self.spectra[0].values)


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
    groups: dict[tuple[str, str, str], list[tuple[Result, RunSpectra]]] = {}
    for done, result in enumerate(trained):
        cell = result.cell
        inputs.progress(done, len(trained), f"spectra of {cell.method}")
        spectra = run_spectra(inputs.folder / "cells" / cell.name, cache=inputs.cache)
        groups.setdefault((cell.data, cell.split, cell.method), []).append((result, spectra))
    inputs.progress(len(trained), len(trained), "")
    methods = []
    for labels, cells in groups.items():
        config = {key: value for key, value in cells[0][0].cell.config.items() if key != "seed"}
        seeds = tuple(result.cell.seed for result, _ in cells)
        scores_by_seed = np.array([result.content["scores"]["numbers"][score] for result, _ in cells])
        methods.append(TrainedMethod(*labels, config, seeds, scores_by_seed, tuple(spectra for _, spectra in cells)))
    return TrainedMethods(score, tuple(methods))


def mean_and_deviation(values: np.ndarray) -> tuple[float, float]:
    """Mean and population standard deviation over seeds, as the papers report them."""
    return float(values.mean()), float(values.std())
