"""Joined data sets, and the split that trains on one part of the data and tests on another."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import data, nearest, split
from unseen.data.catalogue import Catalogue, ItemReader, load_catalogue
from unseen.data.item_readers import FeatureArray, ImageFiles, ImagesInMemory
from unseen.data.splits import Split, split_by_classes, split_catalogue


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinedCatalogue(Catalogue):
    """Several catalogues, one after the other; `parts` holds each of them by its label."""

    parts: Mapping[str, Catalogue]


@data("joined")
def joined(parts: dict[str, str | dict[str, object]]) -> Catalogue:
    """Several data sets as one, for training on one of them and testing on another (split `domains`).

    ===========  ====================================================================================
    parts        label -> data record; ids and class names are prefixed with the label
    ===========  ====================================================================================

    All parts are of one kind: files, images in memory of one size, or features of one width. Checksums that
    ``unseen data check`` recorded for a part are not used here: joined files are identified by sizes and times.

    Raises:  `DataError` for fewer than two parts and for parts that do not fit together
    """
    if len(parts) < 2:
        raise DataError(
            "joined: at least 2 parts are needed", got=list(parts), hint="Set parts: {birds: ..., cars: ...}."
        )
    loaded = {label: load_catalogue(record) for label, record in parts.items()}
    offsets = np.cumsum([0, *(len(part.class_names) for part in loaded.values())])
    return JoinedCatalogue(
        name=" + ".join(loaded),
        reader=_joined_reader([part.reader for part in loaded.values()]),
        labels=np.concatenate([part.labels + offset for part, offset in zip(loaded.values(), offsets, strict=False)]),
        class_names=tuple(f"{label}/{name}" for label, part in loaded.items() for name in part.class_names),
        ids=tuple(f"{label}/{name}" for label, part in loaded.items() for name in part.ids),
        class_groups=tuple(group for label, part in loaded.items() for group in _groups(label, part)),
        is_query=_joined_marks(loaded.values(), "is_query"),
        is_gallery=_joined_marks(loaded.values(), "is_gallery"),
        parts=loaded,
    )


@split("domains")
class ByDomains:
    """Training classes from one part of the data, test classes from another part or from the same one.

    Parts are those of joined data, or the groups of other data (scripts, categories).

    ===========  ====================================================================================
    train_on     label of the part whose training and validation classes are used
    test_on      label of the part whose test classes are used
    by           split of each part (of all groups together) that determines these classes; None for
                 the split that the data set defines, or half of the classes (`fraction`) if it
                 defines none
    ===========  ====================================================================================

    Reference:  Milbich et al., Characterizing Generalization under Out-Of-Distribution Shifts, NeurIPS 2021,
                arXiv:2107.09562
    Raises:     `ConfigError` for data without parts or groups, `DataError` for an unknown part
    """

    def __init__(self, *, train_on: str, test_on: str, by: str | dict[str, object] | None = None) -> None:
        self.train_on, self.test_on, self.by = train_on, test_on, by

    def __call__(self, catalogue: Catalogue) -> Split:
        """Split a catalogue."""
        if isinstance(catalogue, JoinedCatalogue):
            known = list(catalogue.parts)
        elif catalogue.class_groups is not None:
            known = list(dict.fromkeys(catalogue.class_groups))
        else:
            raise ConfigError(
                "split 'domains' is for data of several parts or groups",
                got=catalogue.name,
                hint="Join several data sets: --data joined:parts={...}.",
            )
        sides = {}
        for side, label in (("train", self.train_on), ("validation", self.train_on), ("test", self.test_on)):
            if label not in known:
                raise DataError(
                    f"split 'domains': no part '{label}'{nearest(label, known)}", hint=f"Parts: {', '.join(known)}."
                )
            sides[side] = self._labels_on_side(catalogue, label, side)
        return split_by_classes(catalogue, f"{self.train_on} to {self.test_on}", **sides)

    def _labels_on_side(self, catalogue: Catalogue, label: str, side: str) -> list[int]:
        """Return the classes on a side of a part's own split, as labels of the whole catalogue."""
        part = catalogue.parts[label] if isinstance(catalogue, JoinedCatalogue) else catalogue
        by = self.by or ("given" if part.fixed_split is not None else "fraction")
        labels = np.unique(part.labels[getattr(split_catalogue(part, by), side)])
        if not isinstance(catalogue, JoinedCatalogue):
            assert catalogue.class_groups is not None, "without groups there are no parts"
            return [number for number in labels.tolist() if catalogue.class_groups[number] == label]
        names = list(catalogue.parts)
        offset = sum(len(catalogue.parts[name].class_names) for name in names[: names.index(label)])
        return (labels + offset).tolist()


def _groups(label: str, part: Catalogue) -> list[str]:
    if part.class_groups is None:
        return [label] * len(part.class_names)
    return [f"{label}/{group}" for group in part.class_groups]


def _joined_marks(parts: Iterable[Catalogue], column: str) -> np.ndarray | None:
    columns = [(getattr(part, column), len(part)) for part in parts]
    if all(marks is None for marks, _ in columns):
        return None
    return np.concatenate([np.ones(size, bool) if marks is None else marks for marks, size in columns])


def _joined_reader(readers: Sequence[ItemReader]) -> ItemReader:
    kinds = sorted({reader.kind for reader in readers})
    if len(kinds) > 1:
        raise DataError("joined: parts must be of one kind", got=" and ".join(kinds))
    files = [reader for reader in readers if isinstance(reader, ImageFiles)]
    if len(files) == len(readers):
        return _joined_files(files)
    features = [reader.features for reader in readers if isinstance(reader, FeatureArray)]
    if len(features) == len(readers):
        return FeatureArray(_concatenated("features", features))
    pixels = [reader.pixels for reader in readers if isinstance(reader, ImagesInMemory)]
    assert len(pixels) == len(readers), "items of an unknown kind"
    return ImagesInMemory(_concatenated("images", pixels))


def _joined_files(readers: Sequence[ImageFiles]) -> ImageFiles:
    roots = [os.path.abspath(reader.root) for reader in readers]
    common = os.path.commonpath(roots)
    paths = (
        os.path.normpath(os.path.join(os.path.relpath(root, common), path))
        for root, reader in zip(roots, readers, strict=True)
        for path in reader.paths
    )
    return ImageFiles(Path(common), tuple(paths))


def _concatenated(content: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
    shapes = sorted({array.shape[1:] for array in arrays})
    if len(shapes) > 1:
        raise DataError(f"joined: {content} of all parts must have one shape", got=" and ".join(map(str, shapes)))
    return np.concatenate(arrays)
