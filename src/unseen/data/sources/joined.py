"""Joined data: several catalogues as one, and the split that trains on one part of data and tests on another."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import data, nearest, split
from unseen.data.catalogue import Catalogue, ItemReader
from unseen.data.factory import load_catalogue, split_catalogue
from unseen.data.item_readers import FeatureArray, ImageFiles, ImagesInMemory
from unseen.data.splits import Split, split_by_classes


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinedCatalogue(Catalogue):
    """Catalogues as one, their items one after the other; `parts` holds each as it was, by its label."""

    parts: Mapping[str, Catalogue]


@data("joined")
def joined(parts: dict[str, Any]) -> Catalogue:
    """Several data sets as one, for training on one of them and testing on another (split `domains`).

    ===========  ====================================================================================
    parts        label -> data record; names of items and classes get the label before them
    ===========  ====================================================================================

    All parts are of one kind: files, images in memory of one size, or features of one width. The sums that
    ``unseen data check`` records of a part do not count here: joined files are told by their sizes and times.

    Raises:  `DataError` for fewer than two parts and for parts that cannot lie beside each other
    """
    if len(parts) < 2:
        raise DataError(
            "joined: at least 2 parts are needed", got=list(parts), hint="Use parts: {birds: ..., cars: ...}."
        )
    loaded = {label: load_catalogue(record) for label, record in parts.items()}
    offsets = np.cumsum([0, *(len(part.class_names) for part in loaded.values())])
    marks = {role: _marks(loaded, role) for role in ("is_query", "is_gallery")}
    return JoinedCatalogue(
        name=" + ".join(loaded),
        reader=_joined_source([part.reader for part in loaded.values()]),
        labels=np.concatenate([part.labels + offset for part, offset in zip(loaded.values(), offsets, strict=False)]),
        class_names=tuple(f"{label}/{name}" for label, part in loaded.items() for name in part.class_names),
        ids=tuple(f"{label}/{name}" for label, part in loaded.items() for name in part.ids),
        class_groups=tuple(group for label, part in loaded.items() for group in _groups(label, part)),
        is_query=marks["is_query"],
        is_gallery=marks["is_gallery"],
        parts=loaded,
    )


@split("domains")
class ByDomains:
    """Training classes of one part of the data, test classes of another part or of the same one.

    Parts are those of joined data, or the groups of other data (scripts, categories).

    ===========  ====================================================================================
    train_on     label of the part whose training and validation classes train and validate
    test_on      label of the part whose test classes test
    by           split of each part (of all groups together) that says which classes these are; None
                 takes the one that the data states itself, or half of the classes (`fraction`) where
                 it states none
    ===========  ====================================================================================

    Reference:  Milbich et al., NeurIPS 2021, arXiv:2107.09562 (SPEC 5.7)
    Raises:     ConfigError for data without parts and groups, DataError for a part that it does not have
    """

    def __init__(self, *, train_on: str, test_on: str, by: str | dict[str, Any] | None = None) -> None:
        self.train_on = train_on
        self.test_on = test_on
        self.by = by

    def __call__(self, catalogue: Catalogue) -> Split:
        """The split of this catalogue."""
        if isinstance(catalogue, JoinedCatalogue):
            known = list(catalogue.parts)
        elif catalogue.class_groups is not None:
            known = list(dict.fromkeys(catalogue.class_groups))
        else:
            raise ConfigError(
                "split 'domains' is for data of several parts or groups",
                got=catalogue.name,
                hint="Use data `joined`, with parts.",
            )
        sides = {}
        for side, label in (("train", self.train_on), ("validation", self.train_on), ("test", self.test_on)):
            if label not in known:
                raise DataError(
                    f"split 'domains': no part '{label}'{nearest(label, known)}", hint=f"Use one of {', '.join(known)}."
                )
            sides[side] = self._classes(catalogue, label, side)
        return split_by_classes(
            catalogue,
            f"{self.train_on} to {self.test_on}",
            train=sides["train"],
            validation=sides["validation"],
            test=sides["test"],
        )

    def _classes(self, catalogue: Catalogue, label: str, side: str) -> list[int]:
        """The classes on a side of a part's own split, as labels of the whole catalogue."""
        part = catalogue.parts[label] if isinstance(catalogue, JoinedCatalogue) else catalogue
        by = self.by or ("given" if part.fixed_split is not None else "fraction")
        own = np.unique(part.labels[getattr(split_catalogue(part, by), side)])
        if not isinstance(catalogue, JoinedCatalogue):
            assert catalogue.class_groups is not None, "a part was asked for of data without groups"
            return [each for each in own.tolist() if catalogue.class_groups[each] == label]
        before = list(catalogue.parts)[: list(catalogue.parts).index(label)]
        return (own + sum(len(catalogue.parts[each].class_names) for each in before)).tolist()


def _groups(label: str, part: Catalogue) -> list[str]:
    if part.class_groups is None:
        return [label] * len(part.class_names)
    return [f"{label}/{group}" for group in part.class_groups]


def _marks(parts: Mapping[str, Catalogue], role: str) -> np.ndarray | None:
    found = [getattr(part, role) for part in parts.values()]
    if all(marks is None for marks in found):
        return None
    whole = (np.ones(len(part), bool) for part in parts.values())
    return np.concatenate([every if marks is None else marks for marks, every in zip(found, whole, strict=True)])


def _joined_source(sources: Sequence[ItemReader]) -> ItemReader:
    kinds = sorted({reader.kind for reader in sources})
    if len(kinds) > 1:
        raise DataError("joined: parts must be of one kind", got=" and ".join(kinds))
    if all(isinstance(reader, ImageFiles) for reader in sources):
        return _joined_files([reader for reader in sources if isinstance(reader, ImageFiles)])
    if all(isinstance(reader, FeatureArray) for reader in sources):
        arrays = [reader.features for reader in sources if isinstance(reader, FeatureArray)]
        _check_alike("features", arrays)
        return FeatureArray(np.concatenate(arrays))
    pictures = [reader.pixels for reader in sources if isinstance(reader, ImagesInMemory)]
    assert len(pictures) == len(sources), "a source of an unknown kind"
    _check_alike("images", pictures)
    return ImagesInMemory(np.concatenate(pictures))


def _joined_files(sources: Sequence[ImageFiles]) -> ImageFiles:
    roots = [os.path.abspath(reader.root) for reader in sources]
    common = os.path.commonpath(roots)
    paths = (
        os.path.normpath(os.path.join(os.path.relpath(root, common), path))
        for root, reader in zip(roots, sources, strict=True)
        for path in reader.paths
    )
    return ImageFiles(Path(common), tuple(paths))


def _check_alike(what: str, arrays: Sequence[np.ndarray]) -> None:
    shapes = sorted({array.shape[1:] for array in arrays})
    if len(shapes) > 1:
        raise DataError(f"joined: {what} of all parts must have one shape", got=" and ".join(map(str, shapes)))
