"""Cars-196: cars of 196 makes, models and years; the first 98 of them train, the others test."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.errors import DataError
from unseen.core.registry import data
from unseen.data.catalogue import Catalogue
from unseen.data.sources._benchmark import (
    ListedImage,
    PublishedCounts,
    benchmark_catalogue,
    find_folder,
    find_image_root,
    scan_class_folders,
    wrong_folder_error,
)

PUBLISHED = {"train": PublishedCounts(8_054, 98), "test": PublishedCounts(8_131, 98)}

_ANNOTATIONS = "cars_annos.mat"
_NAMES = "cars_meta.mat"
_HALVES = {"cars_train": "cars_train_annos.mat", "cars_test": "cars_test_annos_withlabels.mat"}
_BELOW = ("", "devkit", "car_devkit", "car_devkit/devkit", "cars196", "stanford_cars", "stanford_cars/devkit")


@data("cars196")
def cars196(path: str) -> Catalogue:
    """Cars-196 with the zero-shot split of the papers: classes 1 to 98 train, 99 to 196 test.

    ==============  ====================================================================================
    one list        cars_annos.mat with the images it names (car_ims/000001.jpg)
    devkit          cars_train_annos.mat and cars_test_annos_withlabels.mat with `cars_train` and `cars_test`
    class folders   AM General Hummer SUV 2000 and so on, also inside `images`, or parted into `train` and `test`
    ==============  ====================================================================================

    The numbers of the classes are the official ones, which are not in the order of the names: those of `cars_meta.mat`
    if it is there, otherwise those that ship with this package. The devkit's halves are the split of the classification
    task and play no part.

    Raises:  `DataError` for a folder that holds none of these, for lists that cannot be read, for missing images
    """
    root = Path(path).expanduser()
    names = _class_names(root)
    place = find_folder(root, _BELOW, _ANNOTATIONS)
    if place is not None:
        images = _images(place / _ANNOTATIONS, "relative_im_path", names)
        where = find_image_root((place, place.parent, root), [image.path for image in images])
        return benchmark_catalogue("cars196", where, images, class_names=names, published=PUBLISHED)
    halves = {half: find_folder(root, _BELOW, file) for half, file in _HALVES.items()}
    if any(halves.values()):
        return _from_devkit(root, halves, names)
    number_of = {_plain(name): number for number, name in names.items()}
    below = ("", "images", "car_data", "car_data/car_data", "cars196", "cars196/images")
    found = scan_class_folders("cars196", root, below, lambda name: number_of.get(_plain(name)))
    if found is None:
        raise wrong_folder_error(
            "cars196",
            root,
            f"{_ANNOTATIONS}, {' with '.join(_HALVES.values())}, or class folders such as AM General Hummer SUV 2000",
        )
    place, inside, notes = found
    listed = [_listed(file, number) for file, number in inside]
    return benchmark_catalogue("cars196", place, listed, class_names=names, published=PUBLISHED, notes=notes)


def official_names() -> dict[int, str]:
    """The names of the classes by their official numbers, 1 to 196."""
    names = json.loads((files("unseen.data.sources") / "cars196.json").read_text(encoding="utf-8"))
    return dict(enumerate(names, start=1))


def _from_devkit(root: Path, halves: dict[str, Path | None], names: dict[int, str]) -> Catalogue:
    images = []
    folders = []
    for half, place in halves.items():
        if place is None:
            # The devkit's own list of the test half has no classes; the one with classes is a file of its own.
            raise DataError(
                f"cars196: {_HALVES[half]} is not in {root}", hint="Use both lists, with the classes of both halves."
            )
        here = _images(place / _HALVES[half], "fname", names)
        candidates = [above / half for above in (root, place, place.parent)]
        candidates += [each / half for each in candidates]  # some archives hold a folder inside a folder of its name
        folders.append(find_image_root(candidates, [image.path for image in here]))
        images.append(here)
    where = Path(*_common(folders[0].parts, folders[1].parts))
    listed = [
        ListedImage((folder.relative_to(where) / image.path).as_posix(), image.class_id, image.part)
        for folder, here in zip(folders, images, strict=True)
        for image in here
    ]
    return benchmark_catalogue("cars196", where, listed, class_names=names, published=PUBLISHED)


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    same = [a == b for a, b in zip(one, other, strict=False)]
    return one[: same.index(False) if False in same else len(same)]


def _images(file: Path, path_field: str, names: dict[int, str]) -> list[ListedImage]:
    annotations = np.atleast_1d(_matlab(file, "annotations"))
    for field in (path_field, "class"):
        if field not in (annotations.dtype.names or ()):
            raise DataError(f"{file}: the annotations have no field '{field}'", got=annotations.dtype.names)
    images = []
    for path, number in zip(annotations[path_field], annotations["class"], strict=True):
        if int(number) not in names:
            raise DataError(f"{file}: '{path}' has a class that does not exist", got=int(number), hint="Use 1 to 196.")
        images.append(_listed(str(path), int(number)))
    if not images:
        raise DataError(f"{file} lists no images")
    return images


def _class_names(root: Path) -> dict[int, str]:
    place = find_folder(root, _BELOW, _NAMES)
    if place is None:
        return official_names()
    names = [str(name) for name in np.atleast_1d(_matlab(place / _NAMES, "class_names"))]
    return dict(enumerate(names, start=1))


def _matlab(file: Path, variable: str) -> Any:
    """A variable of a MATLAB file; the reader runs nothing of what it reads."""
    from scipy.io import loadmat  # slow to import, and needed for these files only

    try:
        content = loadmat(file, squeeze_me=True)
    except Exception as problem:  # a reader that is fed arbitrary bytes may raise anything
        raise DataError(f"{file} cannot be read as a MATLAB file: {' '.join(str(problem).split())}") from None
    if variable not in content:
        raise DataError(f"{file} has no variable '{variable}'", got=sorted(key for key in content if key[0] != "_"))
    return content[variable]


def _listed(path: str, number: int) -> ListedImage:
    return ListedImage(path, number, "train" if number <= 98 else "test")


def _plain(name: str) -> str:
    # Copies write "Ram C/V" as "Ram C-V" or "Ram C_V", since a folder's name can have no slash.
    return "".join(letter for letter in name.casefold() if letter.isalnum())
