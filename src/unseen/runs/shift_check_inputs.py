"""The inputs of a shift check: features of training and deployment data by one model."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.core.config import Record, as_record
from unseen.core.errors import ConfigError, DataError
from unseen.data import Catalogue, load_catalogue
from unseen.data.sources.features import check_features
from unseen.data.sources.folder import unlabeled_images
from unseen.evaluation.files import read_mapped
from unseen.models import embed
from unseen.models.engine import EngineChoice, check_engine
from unseen.runs.frozen_features import features_by, pool, prepare_pooled
from unseen.runs.run_recipe import engine_of_run, load_run, make_dataset
from unseen.shifts.shift_check import DeploymentData, ShiftCheckInputs


class ShiftCheckData(NamedTuple):
    """The two data sets of a shift check, as the command line names them.

    ``test`` may be an npy file of features, or an npz file without labels. With ``labelled`` False the labels of
    deployment data mean nothing; `folder=DIR` is then all images below the folder.
    """

    train: str
    test: str
    labelled: bool = True


def compared_features(
    data: ShiftCheckData,
    *,
    settings: Mapping[str, object] | None = None,
    run: Path | None = None,
    engine: str = "auto",
    cache: Path | None = None,
    workers: int = 0,
) -> ShiftCheckInputs:
    """Features of both data sets, by an untrained backbone (settings `model`, `transform`) or by a finished run's.

    Raises:  DataError and ConfigError for data that cannot be read or models that do not fit them
    """
    choice = check_engine(engine)
    if run is not None:
        return _by_run(run, data, choice, workers)
    # Both data sets are looked at before features of either are computed.
    prepared = prepare_pooled({"data": _record(data.train), "engine": choice, **(settings or {})})
    deployed = _unlabelled(data)
    other = None if deployed is not None else _deployment_catalogue(data)
    is_raw = prepared.recipe.model["name"] == "identity"
    if deployed is not None and not is_raw:
        raise ConfigError(
            "deployment features need training features", got=data.train, hint="Use --train features=FILE.npz."
        )
    pooled = pool(prepared, cache=cache, workers=workers)
    if other is not None:
        features = features_by(pooled.recipe, other, cache=cache, workers=workers)
        deployed = DeploymentData(other.name, features, other.labels if data.labelled else None)
    assert deployed is not None, "deployment data are a file of features or a catalogue"
    name = "the features as they are" if is_raw else "the untrained backbone"
    return ShiftCheckInputs(pooled.catalogue, pooled.features, deployed, None, frozenset(), name)


def _by_run(run: Path, data: ShiftCheckData, engine: EngineChoice, workers: int) -> ShiftCheckInputs:
    """Features below the last layer of a finished run; the classes it was trained on are named."""
    prepared, _, model = load_run(run)
    if not any(parameter.numel() for parameter in model.head.parameters()):
        raise ConfigError(f"{run} has no last layer", hint="Use a run with an embedding size, or no --run.")

    engine = engine_of_run(prepared.recipe, engine)

    def features_of(catalogue: Catalogue) -> np.ndarray:
        items = make_dataset(prepared.recipe, catalogue)
        indices = np.arange(len(catalogue))
        return embed(model.backbone, items, indices, engine=engine, workers=workers).flatten(1).numpy()

    catalogue, other = load_catalogue(_record(data.train)), _deployment_catalogue(data)
    own = prepared.catalogue
    trained = {own.class_names[label] for label in np.unique(own.labels[prepared.split.train])}
    deployed = DeploymentData(other.name, features_of(other), other.labels if data.labelled else None)
    name = f"the run {run.name or run}"
    return ShiftCheckInputs(catalogue, features_of(catalogue), deployed, model.head, frozenset(trained), name)


def _record(text: str) -> Record:
    record = as_record(text, "data")
    if record["name"].endswith((".npz", ".npy")):
        raise ConfigError(f"'{text}' does not say what kind of data it is", hint=f"Use features={text}.")
    return record


def _deployment_catalogue(data: ShiftCheckData) -> Catalogue:
    """Deployment data; classes of a single image are kept, as nothing is trained on them."""
    record = _record(data.test)
    if record["name"] == "folder" and not data.labelled and set(record) == {"name", "path"}:
        return unlabeled_images(record["path"])
    return load_catalogue(
        record | ({"small_classes": "keep"} if record["name"] in ("folder", "table", "features") else {})
    )


def _unlabelled(data: ShiftCheckData) -> DeploymentData | None:
    """Features without labels, or with labels that mean nothing, in an npy or npz file; None for anything else."""
    if data.test.endswith(".npy"):
        path = Path(data.test.removeprefix("features=")).expanduser()
        rows = np.asarray(read_mapped(path))
        check_features(path, rows)
        return DeploymentData(path.stem, rows)
    record = as_record(data.test, "data")
    path = Path(str(record.get("path", ""))).expanduser()
    if record["name"] != "features" or not path.is_file():
        return None
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile) or (data.labelled and "labels" in archive.files):
                return None
            features = archive["features"] if "features" in archive.files else None
    except Exception:  # whatever a damaged archive raises: the reader of labelled files says what is wrong with it
        return None
    if features is None:
        raise DataError(f"{path} holds no table of features", hint="Write it by numpy.savez(path, features=...).")
    check_features(path, features)
    return DeploymentData(path.stem, features)
