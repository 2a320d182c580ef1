"""The folder of a run: the names of its files, and how they are read and written.

=====================  ===========================================================================================
run.json               the recipe; written first, it says whose folder this is
checkpoints/           what an interrupted run continues from; removed when it is finished
model.safetensors      the weights of the whole model
shown.npz              the sample of embeddings, neighbours and failures that a report shows
draws.npz              the bootstrap draws, for paired comparisons with other runs
result.json            scores, history and protocol; written last, it says that the run is finished
=====================  ===========================================================================================
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file, save
from torch import Tensor

from unseen.core.config import Record
from unseen.core.errors import ConfigError
from unseen.core.files import read_json, remove_folder, sweep, write_bytes, write_json
from unseen.core.folders import exclusive
from unseen.evaluation.files import load_draws, save_draws
from unseen.evaluation.intervals import Draws
from unseen.evaluation.report_sample import ReportSample, load_report_sample, save_report_sample

RUN_FILE = "run.json"
RESULT_FILE = "result.json"
WEIGHTS_FILE = "model.safetensors"
REPORT_SAMPLE_FILE = "shown.npz"
DRAWS_FILE = "draws.npz"
CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def weights(self) -> Path:
        """The file of the trained weights."""
        return self.path / WEIGHTS_FILE

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / CHECKPOINTS

    @property
    def is_run(self) -> bool:
        """Whether this is the folder of a run, finished or not."""
        return (self.path / RUN_FILE).is_file()

    @property
    def is_finished(self) -> bool:
        """Whether the run has its result."""
        return (self.path / RESULT_FILE).is_file()

    def recipe(self) -> Record:
        """The recipe of the run."""
        return read_json(self.path / RUN_FILE).get("recipe", {})

    def result(self) -> Record:
        """The scores, history and protocol of a finished run."""
        return read_json(self.path / RESULT_FILE)

    def load_weights(self) -> dict[str, Tensor]:
        """The trained weights by name."""
        return load_file(self.weights)

    def report_sample(self) -> ReportSample | None:
        """What a report shows of the run, if it was written."""
        path = self.path / REPORT_SAMPLE_FILE
        return load_report_sample(path) if path.is_file() else None

    def draws(self) -> Draws | None:
        """The bootstrap draws of the run's scores, if they were written."""
        path = self.path / DRAWS_FILE
        return load_draws(path) if path.is_file() else None

    def holds(self, recipe: Record) -> bool:
        """Whether the folder holds the run of this recipe, finished or not.

        Raises:     ConfigError if it holds another run
        """
        if not (self.path / RUN_FILE).exists():
            return False
        own = self.recipe()
        differs = sorted(key for key, value in recipe.items() if own.get(key) != value)
        if differs:
            raise ConfigError(
                f"{self.path} holds another run (it differs in {', '.join(differs)})",
                hint="Use another --out folder, or remove this one.",
            )
        return True

    @contextmanager
    def claimed(self, recipe: Record, version: str) -> Iterator[None]:
        """Hold the folder for this run alone, so that two processes never write to one run."""
        self.path.mkdir(parents=True, exist_ok=True)

        def refuse() -> None:
            raise ConfigError(f"another process is at work in {self.path}", hint="Use another --out folder, or wait.")

        with exclusive(self.path / ".lock", when_busy=refuse):
            sweep(self.path)
            if not self.holds(recipe):
                write_json(self.path / RUN_FILE, {"unseen": version, "recipe": recipe})
            try:
                yield
            finally:
                # Ctrl-C may come in the middle of a write or of a removal; its leftovers go too.
                for folder in (self.path, self.checkpoints):
                    sweep(folder)

    def write(self, result: Record, *, weights: dict[str, Tensor], report_sample: ReportSample, draws: Draws) -> None:
        """Write what a finished run leaves, the result last, and remove what only served to continue."""
        write_bytes(self.weights, save({name: tensor.cpu().contiguous() for name, tensor in weights.items()}))
        save_report_sample(self.path / REPORT_SAMPLE_FILE, report_sample)
        save_draws(self.path / DRAWS_FILE, draws)
        write_json(self.path / RESULT_FILE, result)
        self.remove_leftovers()

    def remove_leftovers(self) -> None:
        """Remove what a finished run needs no more; a kill may have left it."""
        sweep(self.path)
        if self.checkpoints.exists():
            remove_folder(self.checkpoints)
