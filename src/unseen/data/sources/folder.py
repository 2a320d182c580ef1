"""A folder of images: one sub-folder per class."""

import os
from collections import Counter
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.core.registry import data
from unseen.data.catalogue import Catalogue, SmallClasses, apply_small_class_policy, encode_labels, quoted
from unseen.data.item_readers import ImageFiles

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")


@data("folder")
def folder(path: str, *, small_classes: SmallClasses = "refuse") -> Catalogue:
    """A folder with one sub-folder of images per class; the sub-folder's name is the class.

    Images are found by suffix (jpg, jpeg, png, webp, bmp), also in sub-folders of a class folder. Hidden files and
    folders are ignored, other files are counted in the notes. `check_images` finds broken images.

    ==============  ====================================================================================
    small_classes   what to do with classes of a single image: "refuse", "drop" or "keep"
    ==============  ====================================================================================

    Raises:  `DataError` for a folder that is missing, empty or without class folders; for a class without images
    """
    root = Path(path).expanduser()
    class_folders, loose = _class_folders(root)
    files: list[str] = []
    others: Counter[str] = Counter()
    for class_folder in class_folders:
        below = _files_below(root / class_folder)
        images = [f"{class_folder}/{file}" for file in below if file.lower().endswith(SUFFIXES)]
        others.update(Path(file).suffix.lower() for file in below if not file.lower().endswith(SUFFIXES))
        if not images:
            raise DataError(
                f"{root / class_folder} holds no image ({', '.join(SUFFIXES)})",
                hint="Every sub-folder must hold the images of one class.",
            )
        files += images
    classes = [printable(file.split("/", 1)[0]) for file in files]
    positions, notes = apply_small_class_policy(str(root), classes, small_classes)
    files = [files[position] for position in positions]
    class_names, labels, _ = encode_labels(str(root), [classes[position] for position in positions])
    if others:
        kinds = ", ".join(f"{count:,} {suffix or 'without suffix'}" for suffix, count in sorted(others.items()))
        notes.append(f"other files were ignored: {kinds}")
    if loose:
        notes.append(f"images outside of any sub-folder were ignored: {len(loose):,}")
    return Catalogue(
        name=printable(root.resolve().name),
        reader=ImageFiles(root, tuple(files)),
        labels=labels,
        class_names=class_names,
        ids=tuple(printable(file) for file in files),
        notes=tuple(notes),
    )


def unlabeled_images(path: str) -> Catalogue:
    """All images below a folder as one class, for uses that need no classes.

    Raises:  `DataError` for a folder that is missing or holds no image
    """
    root = Path(path).expanduser()
    if not root.is_dir():
        raise DataError(f"no folder {root}", hint="A folder of images is needed.")
    files = [file for file in _files_below(root) if file.lower().endswith(SUFFIXES)]
    if not files:
        raise DataError(f"{root} holds no image ({', '.join(SUFFIXES)})", hint="A folder of images is needed.")
    return Catalogue(
        name=printable(root.resolve().name),
        reader=ImageFiles(root, tuple(files)),
        labels=np.zeros(len(files), np.int64),
        class_names=("unknown",),
        ids=tuple(printable(file) for file in files),
    )


def printable(name: str) -> str:
    r"""Return a file name as valid Unicode; bytes that are not UTF-8 are escaped.

    >>> printable("caf\udce9")
    'caf\\xe9'
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _class_folders(root: Path) -> tuple[list[str], list[str]]:
    layout = "A folder with one sub-folder of images per class is needed."
    try:
        with os.scandir(root) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
            folders = sorted(entry.name for entry in visible if entry.is_dir())
            loose = sorted(entry.name for entry in visible if entry.name.lower().endswith(SUFFIXES) and entry.is_file())
    except FileNotFoundError:
        raise DataError(f"no folder {root}", hint=layout) from None
    except NotADirectoryError:
        raise DataError(f"{root} is a file", hint=layout) from None
    except OSError as problem:
        raise DataError(f"{root} cannot be read: {problem.strerror}") from None
    if not visible:
        raise DataError(f"{root} is empty", hint=layout)
    if not folders and loose:
        raise DataError(
            f"{root} holds {quoted(loose, 'image', f'{len(loose):,} images')} directly, so no image has a class",
            hint=f"{layout} Or list path and label of each image in a CSV: table=FILE.",
        )
    if not folders:
        raise DataError(f"{root} has no sub-folders", hint=layout)
    return folders, loose


def _files_below(start: Path) -> list[str]:
    def fail(problem: OSError) -> None:
        raise DataError(f"{problem.filename} cannot be read: {problem.strerror}")

    paths = []
    # Symbolic links to folders are not followed inside a class: they can form a cycle.
    for parent, folders, files in os.walk(start, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        below = Path(parent).relative_to(start)
        paths += [(below / name).as_posix() for name in files if not name.startswith(".")]
    return sorted(paths)
