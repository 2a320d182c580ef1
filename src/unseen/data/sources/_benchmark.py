"""Shared by the benchmark data sets: finding their files, explaining what is missing, comparing published counts."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.core.errors import DataError
from unseen.data.catalogue import Catalogue, apply_small_class_policy, quoted
from unseen.data.item_readers import ImageFiles
from unseen.data.sources.folder import folder, printable
from unseen.data.sources.table import read_text

ClassNames = Mapping[int, str]
ClassNumber = Callable[[str], int | None]  # of a folder's name; None if it is no class


class ListedImage(NamedTuple):
    """One image of a benchmark: path below the root, class number, and part (train, test, query, gallery)."""

    path: str
    class_id: int
    part: str


@dataclass(frozen=True)
class Benchmark:
    """A published data set."""

    name: str
    published: Mapping[str, tuple[int, int]]  # images and classes of each part, as its papers state them

    def catalogue(
        self,
        root: Path,
        images: Iterable[ListedImage],
        class_names: ClassNames,
        *,
        class_groups: Mapping[int, str] | None = None,
        notes: Sequence[str] = (),
    ) -> Catalogue:
        """Return the catalogue, classes ordered by number and images of a class by path: the same for every layout.

        Everything but the train part is the test side. Counts that differ from the published ones are in the notes.

        Raises:  `DataError` when files are missing or listed twice
        """
        rows = sorted(images, key=lambda image: (image.class_id, image.path))
        paths = tuple(image.path for image in rows)
        self._check_files(root, paths)
        parts = np.array([image.part for image in rows])
        present = sorted({image.class_id for image in rows})
        label_of = {number: label for label, number in enumerate(present)}
        labels = np.array([label_of[image.class_id] for image in rows], np.int64)
        _, small = apply_small_class_policy(self.name, [class_names[image.class_id] for image in rows], "keep")
        has_roles = "query" in self.published
        return Catalogue(
            name=self.name,
            reader=ImageFiles(root, paths),
            labels=labels,
            class_names=tuple(class_names[number] for number in present),
            ids=tuple(printable(path) for path in paths),
            class_groups=tuple(class_groups[number] for number in present) if class_groups is not None else None,
            fixed_split=np.where(parts == "train", "train", "test"),
            is_query=parts == "query" if has_roles else None,
            is_gallery=parts == "gallery" if has_roles else None,
            notes=(*count_differences(parts, labels, self.published), *small, *notes),
        )

    def zero_shot_image(self, path: str, class_id: int) -> ListedImage:
        """Return an image of a benchmark whose first classes are for training and the others for testing."""
        return ListedImage(path, class_id, "train" if class_id <= self.published["train"][1] else "test")

    def wrong_folder(self, root: Path, looked_for: str) -> DataError:
        """Return the error for a folder that contains something else."""
        return DataError(
            f"{self.name}: looked for {looked_for} in {root}, found {_content(root)}",
            hint=f"Set {self.name}=FOLDER to the folder of the data set.",
        )

    def from_class_folders(
        self, root: Path, below: Sequence[str], class_id: ClassNumber, class_names: ClassNames | None = None
    ) -> Catalogue | None:
        """Return the catalogue of a copy with one folder per class; None if there is no such folder.

        The class folders are in one of the folders `below` the root, or there in folders `train` and `test`, which
        have nothing to do with the zero-shot split. Class names are the folders' unless they are given.

        Raises:  `DataError` when there are other folders beside the class folders
        """
        for parent in (root / name for name in below):
            halves = [half for half in ("train", "test") if _sub_folders(parent / half)]
            for sides in ([""], halves):
                names = {name for side in sides for name in _sub_folders(parent / side)}
                unknown = sorted(name for name in names if class_id(name) is None)
                if len(unknown) == len(names):
                    continue
                if unknown:
                    raise DataError(
                        f"{self.name}: {quoted(unknown, 'folder', 'folders')} in {parent} "
                        f"{'is' if len(unknown) == 1 else 'are'} none of the data set's classes",
                        hint="Keep only class folders there, with the data set's own names.",
                    )
                return self._join_halves(parent, sides, class_id, class_names)
        return None

    def _join_halves(
        self, root: Path, sides: Sequence[str], class_id: ClassNumber, class_names: ClassNames | None
    ) -> Catalogue:
        images, names, notes = [], {}, []
        for side in sides:
            half = folder(str(root / side), small_classes="keep")
            assert isinstance(half.reader, ImageFiles)
            for path, label in zip(half.reader.paths, half.labels, strict=True):
                number = class_id(half.class_names[label])
                assert number is not None, "every folder here is a class folder"
                names[number] = half.class_names[label]
                images.append(self.zero_shot_image(f"{side}/{path}" if side else path, number))
            notes += [note for note in half.notes if "single item" not in note]
        return self.catalogue(root, images, class_names or names, notes=notes)

    def _check_files(self, root: Path, paths: Sequence[str]) -> None:
        repeated = [path for path, count in Counter(paths).items() if count > 1]
        if repeated:
            raise DataError(
                f"{self.name}: listed more than once: {quoted(repeated, 'image', 'images')}",
                hint="Use the official lists.",
            )
        missing = missing_files(root, paths)
        if missing:
            raise DataError(
                f"{self.name}: {len(missing):,} of {len(paths):,} listed images are not below {root}: "
                f"{quoted(missing, 'image', 'images')}",
                hint="Use a complete copy.",
            )


def count_differences(parts: np.ndarray, labels: np.ndarray, published: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return a note for each part whose counts differ from the published ones.

    >>> count_differences(np.array(["train"] * 3), np.array([0, 1, 1]), {"train": (4, 2)})
    ['the train part has 3 images of 2 classes; the published one has 4 images of 2 classes']
    """
    notes = []
    for part, stated in published.items():
        here = labels[parts == part]
        counts = (len(here), len(np.unique(here)))
        if counts != stated:
            had, published_size = (f"{images:,} images of {classes:,} classes" for images, classes in (counts, stated))
            notes.append(f"the {part} part has {had}; the published one has {published_size}")
    return notes


def find_folder(root: Path, below: Sequence[str], file: str) -> Path | None:
    """Return the first of these folders below the root that contains the file."""
    return next((root / name for name in below if (root / name / file).is_file()), None)


def find_image_root(candidates: Sequence[Path], paths: Sequence[str]) -> Path:
    """Return the candidate with most of three probed paths below it; the first one if none has any."""
    probes = [paths[0], paths[len(paths) // 2], paths[-1]]
    return max(candidates, key=lambda root: sum((root / path).is_file() for path in probes))


def read_columns(file: Path, columns: int) -> list[list[str]]:
    """Read the whitespace-separated columns of a list, the last one with its spaces; empty lines are skipped."""
    rows = []
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        words = line.split(maxsplit=columns - 1)
        if not words:
            continue
        if len(words) < columns:
            raise DataError(f"{file}, row {number}: {columns} columns are needed", got=line[:80])
        rows.append([*words[:-1], words[-1].rstrip()])
    if not rows:
        raise DataError(f"{file} is empty")
    return rows


def parse_integer(file: Path, text: str) -> int:
    """Parse the number of an image or a class in a list."""
    try:
        return int(text)
    except ValueError:
        raise DataError(f"{file}: an integer is needed", got=text) from None


def missing_files(root: Path, paths: Iterable[str]) -> list[str]:
    """Return the paths without a file; every folder is read once and no file is opened."""
    wanted: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        wanted[os.path.dirname(path)].append(path)
    missing = []
    for parent, here in wanted.items():
        try:
            with os.scandir(root / parent) as entries:
                names = {entry.name for entry in entries if not entry.is_dir()}
        except (FileNotFoundError, NotADirectoryError):
            names = set()
        missing += [path for path in here if os.path.basename(path) not in names]
    return missing


def _sub_folders(parent: Path) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            return [printable(entry.name) for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _content(root: Path) -> str:
    if not root.exists():
        return "no such folder"
    if not root.is_dir():
        return "a file in its place"
    with os.scandir(root) as entries:
        listed = sorted((printable(entry.name), entry.is_dir()) for entry in entries)
    folders = [name for name, is_folder in listed if is_folder]
    files = [name for name, is_folder in listed if not is_folder]
    parts = [quoted(folders, "the folder", f"{len(folders):,} folders")] if folders else []
    parts += [quoted(files, "the file", f"{len(files):,} files")] if files else []
    return " and ".join(parts) or "nothing: it is empty"
