"""What the benchmark_catalogue data sets share: finding their files, telling what is missing, and checking published counts."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.catalogue import Catalogue, apply_small_class_policy, quoted
from unseen.data.item_readers import ImageFiles
from unseen.data.sources.folder import folder, printable
from unseen.data.sources.table import read_text

_SHOWN = 3


@dataclass(frozen=True)
class PublishedCounts:
    """The size of one part of a benchmark_catalogue, as its papers state it."""

    images: int
    classes: int

    def __str__(self) -> str:
        return f"{self.images:,} images of {self.classes:,} classes"


@dataclass(frozen=True)
class ListedImage:
    """One image of a benchmark_catalogue: where it lies below the root, the number of its class, and the part it belongs to."""

    path: str
    class_id: int
    part: str


def benchmark_catalogue(
    name: str,
    root: Path,
    images: Iterable[ListedImage],
    *,
    class_names: Mapping[int, str],
    published: Mapping[str, PublishedCounts],
    class_groups: Mapping[int, str] | None = None,
    notes: Sequence[str] = (),
) -> Catalogue:
    """The catalogue of a benchmark_catalogue: classes in the order of their numbers, images of a class in that of their paths.

    Parts named train, query and gallery are those of In-Shop; everything but train is the test side. So every layout of
    a data set gives the same catalogue. Counts that differ from the published ones are said in the notes.

    Raises:  `DataError` when files are missing, with their number and the first of them
    """
    rows = sorted(images, key=lambda image: (image.class_id, image.path))
    paths = tuple(image.path for image in rows)
    repeated = [path for path, count in Counter(paths).items() if count > 1]
    if repeated:
        raise DataError(
            f"{name}: listed more than once: {quoted(repeated, 'image', 'images')}", hint="Use the official lists."
        )
    _check_files(name, root, paths)
    parts = np.array([image.part for image in rows])
    present = sorted({image.class_id for image in rows})
    label_of = {number: label for label, number in enumerate(present)}
    labels = np.array([label_of[image.class_id] for image in rows], np.int64)
    _, small = apply_small_class_policy(name, [class_names[image.class_id] for image in rows], "keep")
    has_roles = "query" in published
    return Catalogue(
        name=name,
        reader=ImageFiles(root, paths),
        labels=labels,
        class_names=tuple(class_names[number] for number in present),
        ids=tuple(printable(path) for path in paths),
        class_groups=tuple(class_groups[number] for number in present) if class_groups is not None else None,
        fixed_split=np.where(parts == "train", "train", "test"),
        is_query=parts == "query" if has_roles else None,
        is_gallery=parts == "gallery" if has_roles else None,
        notes=(*count_differences(parts, labels, published), *small, *notes),
    )


def count_differences(parts: np.ndarray, labels: np.ndarray, published: Mapping[str, PublishedCounts]) -> list[str]:
    """A sentence for each part whose counts are not the published ones.

    >>> count_differences(np.array(["train"] * 3), np.array([0, 1, 1]), {"train": PublishedCounts(4, 2)})
    ['the train part has 3 images of 2 classes; the published one has 4 images of 2 classes']
    """
    told = []
    for part, stated in published.items():
        here = labels[parts == part]
        found = PublishedCounts(len(here), len(np.unique(here)))
        if found != stated:
            told.append(f"the {part} part has {found}; the published one has {stated}")
    return told


def find_folder(root: Path, below: Sequence[str], file: str) -> Path | None:
    """The first of these folders below the root in which there is that file."""
    return next((root / each for each in below if (root / each / file).is_file()), None)


def find_image_root(candidates: Sequence[Path], paths: Sequence[str]) -> Path:
    """The candidate below which most of some listed paths lead to a file; the first one when none does."""
    some = [paths[0], paths[len(paths) // 2], paths[-1]]
    return max(candidates, key=lambda place: sum((place / path).is_file() for path in some))


def wrong_folder_error(name: str, root: Path, looked_for: str) -> DataError:
    """The error for a folder that holds something else."""
    return DataError(f"{name}: looked for {looked_for} in {root}, found {_content(root)}", hint=f"Use {name}=FOLDER.")


def read_columns(file: Path, columns: int) -> list[list[str]]:
    """The words of each line of a list, the last column with its spaces; empty lines are left out."""
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
    """A number of an image or a class in a list."""
    try:
        return int(text)
    except ValueError:
        raise DataError(f"{file}: a whole number is needed", got=text) from None


def scan_class_folders(
    name: str, root: Path, below: Sequence[str], class_id: Callable[[str], int | None]
) -> tuple[Path, list[tuple[str, int]], list[str]] | None:
    """Images of a copy with one folder a class: the root, each image's path and class number, and notes.

    The class folders lie in one of the folders `below` the root, or there in folders `train` and `test`, which say
    nothing about the zero-shot split. None when no such folder is there.

    Raises:  `DataError` when beside class folders there are folders that are none
    """
    for place in (root / each for each in below):
        halves = [half for half in ("train", "test") if _sub_folders(place / half)]
        for sides in ([""], halves):
            names = {inside for side in sides for inside in _sub_folders(place / side)}
            unknown = sorted(inside for inside in names if class_id(inside) is None)
            if len(unknown) == len(names):
                continue
            if unknown:
                raise DataError(
                    f"{name}: {quoted(unknown, 'folder', 'folders')} in {place} {'is' if len(unknown) == 1 else 'are'} "
                    f"none of the data set's classes",
                    hint="Use a folder of class folders alone, named as the data set names them.",
                )
            return _in_halves(place, sides, class_id)
    return None


def _in_halves(
    place: Path, sides: Sequence[str], class_id: Callable[[str], int | None]
) -> tuple[Path, list[tuple[str, int]], list[str]]:
    images: list[tuple[str, int]] = []
    notes: list[str] = []
    for side in sides:
        found = folder(str(place / side), small_classes="keep")
        assert isinstance(found.reader, ImageFiles)
        numbers = [class_id(inside) for inside in found.class_names]
        for path, label in zip(found.reader.paths, found.labels, strict=True):
            number = numbers[label]
            assert number is not None, "a folder became a class that is none"
            images.append((f"{side}/{path}" if side else path, number))
        notes += [note for note in found.notes if "single item" not in note]
    return place, images, notes


def missing_files(root: Path, paths: Iterable[str]) -> list[str]:
    """The paths below the root that lead to no file; every folder is read once and no file is opened."""
    wanted: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        wanted[os.path.dirname(path)].append(path)
    missing = []
    for place, here in wanted.items():
        try:
            with os.scandir(root / place) as entries:
                names = {entry.name for entry in entries if not entry.is_dir()}
        except (FileNotFoundError, NotADirectoryError):
            names = set()
        missing += [path for path in here if os.path.basename(path) not in names]
    return missing


def _check_files(name: str, root: Path, paths: Sequence[str]) -> None:
    missing = missing_files(root, paths)
    if missing:
        files = quoted(missing, "image", "images", _SHOWN)
        raise DataError(
            f"{name}: {len(missing):,} of {len(paths):,} listed images are not below {root}: {files}",
            hint="Use a complete copy.",
        )


def _sub_folders(place: Path) -> list[str]:
    try:
        with os.scandir(place) as entries:
            return [printable(each.name) for each in entries if each.is_dir() and not each.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _content(root: Path) -> str:
    if not root.exists():
        return "no such folder"
    if not root.is_dir():
        return "a file in its place"
    with os.scandir(root) as entries:
        both = sorted((not each.is_dir(), printable(each.name)) for each in entries)
    folders = [name for is_file, name in both if not is_file]
    files = [name for is_file, name in both if is_file]
    told = [quoted(folders, "the folder", f"{len(folders):,} folders")] if folders else []
    told += [quoted(files, "the file", f"{len(files):,} files")] if files else []
    return " and ".join(told) or "nothing: it is empty"
