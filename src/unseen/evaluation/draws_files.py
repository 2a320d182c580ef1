"""The draws of an evaluation in a file, so that it can be compared with another one later."""

from pathlib import Path

import numpy as np

from unseen.core.errors import ConfigError, DataError
from unseen.evaluation.array_files import read_arrays, write_arrays
from unseen.evaluation.intervals import Bootstrap, Draws

_WHAT = "the draws of an evaluation"


def save_draws(path: Path, draws: Draws) -> None:
    """Write the draws in one atomic step, every replicate in full: rounded ones would make ties of differences."""
    count = len(draws.replicates)
    replicates = np.array(list(draws.replicates.values()), dtype=np.float64)
    arrays = {
        "scores": np.array(list(draws.replicates), dtype=np.str_),
        "replicates": replicates.reshape(count, draws.bootstrap.draws if count else 0),
        "draws": np.array(draws.bootstrap.draws),
        "confidence": np.array(draws.bootstrap.confidence),
        "seed": np.array(draws.bootstrap.seed, dtype=np.int64),
        "test_set": np.array(draws.test_set, dtype=np.str_),
    }
    write_arrays(path, arrays)


def load_draws(path: Path) -> Draws:
    """Read what `save_draws` wrote.

    Raises: DataError for a file that is missing, damaged or holds anything else
    """
    arrays = read_arrays(path, _WHAT)
    try:
        scores, replicates = arrays["scores"], arrays["replicates"]
        bootstrap = Bootstrap(
            draws=int(arrays["draws"]), confidence=float(arrays["confidence"]), seed=int(arrays["seed"])
        )
        test_set = str(arrays["test_set"][()])
    except (KeyError, TypeError, ValueError, IndexError, ConfigError) as problem:
        raise DataError(f"{path} does not hold {_WHAT}: {problem}", hint="Use evaluate the run again.") from None
    is_whole = scores.ndim == 1 and replicates.shape == (len(scores), bootstrap.draws if len(scores) else 0)
    if not is_whole or replicates.dtype != np.float64:
        raise DataError(f"{path} does not hold {_WHAT}", got=replicates.shape, hint="Use evaluate the run again.")
    return Draws({str(name): row for name, row in zip(scores, replicates, strict=True)}, bootstrap, test_set)
