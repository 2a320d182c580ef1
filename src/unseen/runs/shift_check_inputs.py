"""Training and deployment data for a check of a shift: features by one model, labels of deployment only if there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from unseen.core.config import Record, as_record
from unseen.core.errors import ConfigError, DataError
from unseen.data import Catalogue, load_catalogue
from unseen.data.sources.folder import unlabeled_images
from unseen.evaluation.embedding_files import read_mapped
from unseen.models import embed
from unseen.runs.frozen_features import features_by, pool, prepare_pooled
from unseen.runs.run_recipe import load_run, make_dataset
from unseen.shifts.shift_check import Deployed


class Compared(NamedTuple):
    """What `check_shift` compares, and by what model it is scored."""

    catalogue: Catalogue
    features: np.ndarray
    deployed: Deployed
    head: nn.Module | None
    seen: frozenset[str]
    scored_by: str


def compared_features(
    train: str,
    test: str,
    *,
    settings: Mapping[str, Any] | None = None,
    run: Path | None = None,
    labelled: bool = True,
    cache: Path | None = None,
    workers: int = 0,
) -> Compared:
    """Features of both data sets, by a backbone that is not trained (`model`, `transform`) or by a finished run's.

    ``test`` may be an npy file of features, or an npz file without labels. With ``labelled`` False the labels that
    deployment data come with mean nothing; `folder=DIR` is then all images below the folder.

    Raises:  DataError and ConfigError for data that cannot be read or models that do not fit them
    """
    if run is not None:
        return _by_run(run, train, test, labelled=labelled, workers=workers)
    # Both data sets are looked at before features of either are computed.
    prepared = prepare_pooled({"data": _record(train), **(settings or {})})
    plain = _unlabelled(test, labelled=labelled)
    other = None if plain is not None else _catalogue(test, labelled=labelled)
    if plain is not None and prepared.recipe.model["name"] != "identity":
        raise ConfigError(
            "deployment features need training features", got=train, hint="Use --train features=FILE.npz."
        )
    pooled = pool(prepared, cache=cache, workers=workers)
    if other is not None:
        features = features_by(pooled.recipe, other, cache=cache, workers=workers)
        plain = _deployed(other, features, labelled=labelled)
    assert plain is not None, "deployment data are a file of features or a catalogue"
    name = "the features as they are" if pooled.recipe.model["name"] == "identity" else "the un-trained backbone"
    return Compared(pooled.catalogue, pooled.features, plain, None, frozenset(), name)


def _by_run(run: Path, train: str, test: str, *, labelled: bool, workers: int) -> Compared:
    """Features below the last layer of a finished run; the classes it was trained on are named."""
    prepared, _, model = load_run(run)
    if not any(parameter.numel() for parameter in model.head.parameters()):
        raise ConfigError(f"{run} has no last layer", hint="Use a run with an embedding size, or no --run.")

    def features_of(catalogue: Catalogue) -> np.ndarray:
        items = make_dataset(prepared.recipe, catalogue)
        return embed(model.backbone, items, np.arange(len(catalogue)), workers=workers).flatten(1).numpy()

    catalogue, other = load_catalogue(_record(train)), _catalogue(test, labelled=labelled)
    own = prepared.catalogue
    trained = {own.class_names[label] for label in np.unique(own.labels[prepared.split.train])}
    deployed = _deployed(other, features_of(other), labelled=labelled)
    return Compared(
        catalogue, features_of(catalogue), deployed, model.head, frozenset(trained), f"the run {run.name or run}"
    )


def _record(text: str) -> Record:
    record = as_record(text, "data")
    if record["name"].endswith((".npz", ".npy")):
        raise ConfigError(f"'{text}' does not say what kind of data it is", hint=f"Use features={text}.")
    return record


def _catalogue(test: str, *, labelled: bool) -> Catalogue:
    """Deployment data; they may hold classes of a single image, as nothing is trained on them."""
    record = _record(test)
    if record["name"] == "folder" and not labelled and set(record) == {"name", "path"}:
        return unlabeled_images(record["path"])
    return load_catalogue(
        record | ({"small_classes": "keep"} if record["name"] in ("folder", "table", "features") else {})
    )


def _deployed(catalogue: Catalogue, features: np.ndarray, *, labelled: bool) -> Deployed:
    return Deployed(catalogue.name, features, catalogue.labels if labelled else None)


def _unlabelled(test: str, *, labelled: bool) -> Deployed | None:
    """Features without labels, or with labels that mean nothing, in an npy or npz file; None for anything else."""
    if test.endswith(".npy"):
        path = Path(test.removeprefix("features=")).expanduser()
        return Deployed(path.stem, _finite(path, np.asarray(read_mapped(path))))
    record = as_record(test, "data")
    path = Path(str(record.get("path", ""))).expanduser()
    if record["name"] != "features" or not path.is_file():
        return None
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile) or (labelled and "labels" in archive.files):
                return None
            rows = archive["features"] if "features" in archive.files else None
    except Exception:  # whatever a damaged archive raises: the reader of labelled files says what is wrong with it
        return None
    if rows is None or rows.ndim != 2 or rows.dtype.kind not in "fiu" or rows.size == 0:
        raise DataError(f"{path} holds no table of features", hint="Use numpy.savez(path, features=...).")
    return Deployed(path.stem, _finite(path, rows))


def _finite(path: Path, rows: np.ndarray) -> np.ndarray:
    is_finite = np.isfinite(np.asarray(rows, np.float32)).all(axis=1)
    if not is_finite.all():
        raise DataError(f"{path}: row {int(is_finite.argmin())} (from 0) holds a value that is not finite in float32")
    return rows
