"""What `evaluate`, `compare`, `calibrate` and `failures` measure: the test set of a run, or embeddings in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from unseen.core.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from unseen.models.engine import EngineChoice

TargetPath = Annotated[
    Path, typer.Argument(help="A run's folder, an npz file with 'features' and 'labels', or an npy file with --labels.")
]
LabelFile = Annotated[
    Path | None, typer.Option(help="Labels of an npy file: an npy file, or a text file with one label per line.")
]
Memory = Annotated[int, typer.Option(help="MB to use beyond the embeddings; changes the time, never a score.")]


class Target(NamedTuple):
    """Embeddings, the keyword arguments of `evaluate` that describe them, and readable names."""

    embeddings: "Tensor | NDArray[Any]"
    arguments: dict[str, Any]
    class_names: Sequence[str] | None = None
    item_names: Sequence[str] | None = None


def read_target(path: Path, labels: Path | None = None, engine: str = "auto") -> Target:
    """The embeddings of a run's test set, computed by an engine, or those in a file."""
    if labels is not None and path.suffix != ".npy":
        raise ConfigError(
            "--labels belongs to an npy file", got=str(path), hint="Leave --labels out for an npz file or a run."
        )
    from unseen.models.engine import check_engine

    choice = check_engine(engine)
    if path.is_dir():
        return _from_run(path, choice)
    if path.suffix == ".npy":
        from unseen.evaluation.files import read_labels, read_mapped

        return Target(read_mapped(path), {"labels": read_labels(path, labels)})
    return _from_npz(path)


def _from_run(folder: Path, engine: "EngineChoice") -> Target:
    from unseen.models import embed
    from unseen.runs import engine_of_run, evaluation_arguments, load_run

    prepared, dataset, model = load_run(folder)
    catalogue, test = prepared.catalogue, prepared.split.test
    return Target(
        embed(model, dataset, test, engine=engine_of_run(prepared.recipe, engine)),
        evaluation_arguments(catalogue, prepared.split),
        catalogue.class_names,
        [catalogue.ids[index] for index in test],
    )


def _from_npz(path: Path) -> Target:
    from unseen.data import FeatureArray, load_catalogue

    catalogue = load_catalogue({"name": "features", "path": str(path), "small_classes": "keep"})
    assert isinstance(catalogue.reader, FeatureArray)
    arguments: dict[str, Any] = {"labels": catalogue.labels}
    if catalogue.class_groups is not None and len(set(catalogue.class_groups)) > 1:
        arguments["super_labels"] = [catalogue.class_groups[label] for label in catalogue.labels]
    return Target(catalogue.reader.features, arguments, catalogue.class_names, catalogue.ids)
