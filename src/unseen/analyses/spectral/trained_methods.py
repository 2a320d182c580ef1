"""The trained methods of a finished study with their scores, and the spectra of their training embeddings."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unseen.analyses.base import AnalysisInputs
from unseen.analyses.run_files import RunFile, load_trained_part
from unseen.core.config import Record
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest
from unseen.evaluation.exact.directions import read_directions
from unseen.evaluation.scores.spectra import class_spectra, over_sum, singular_values, spectral_decay
from unseen.models import embed
from unseen.studies.store import Result

FILE = "spectra.json"


@dataclass(frozen=True, eq=False)
class RunSpectra:
    """Singular values of a trained model's embeddings of its training images, each spectrum divided by its sum.

    ==========  ===============================================================================
    values      of all training images, as many values as the embedding has dimensions
    by_class    of each class alone, averaged over classes: the first 35, shorter ones padded with zeros
    ==========  ===============================================================================

    Reference:  Roth et al., ICML 2020, arXiv:2002.08473, section 5 and figure 11
    """

    values: NDArray[np.float64]
    by_class: NDArray[np.float64]

    @property
    def rho(self) -> float:
        """Spectral decay of the training embeddings; larger is more compressed."""
        return spectral_decay(self.values)


def run_spectra(folder: Path, *, cache: Path | None = None) -> RunSpectra:
    """The spectra of a finished run; kept beside its weights, and computed again if the weights have changed.

    Raises:     DataError for a folder without a finished run, ConfigError if the run's data have changed
    """
    file = RunFile(folder, FILE, {})
    if not file.content:
        part = load_trained_part(folder, cache=cache)
        directions = read_directions(embed(part.model, part.inputs, part.split.train, engine="torch"))
        _, classes = np.unique(part.inputs.catalogue.labels[part.split.train], return_inverse=True)
        values, by_class = over_sum(singular_values(directions)), class_spectra(directions, classes).mean
        file.write({"values": values.tolist(), "by_class": by_class.tolist()})
    return RunSpectra(np.array(file.content["values"]), np.array(file.content["by_class"]))


@dataclass(frozen=True, eq=False)
class TrainedMethod:
    """A method on one split: by seed, its score on unseen classes and its spectra on training classes."""

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
