"""Cars-196: cars of 196 makes, models and years; the first 98 classes for training, the others for testing."""

import json
import os
from importlib.resources import files
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.core.registry import data
from unseen.data.catalogue import Catalogue
from unseen.data.sources._benchmark import Benchmark, ListedImage, find_folder, find_image_root

CARS196 = Benchmark("cars196", {"train": (8_054, 98), "test": (8_131, 98)})

_ANNOTATIONS = "cars_annos.mat"
_NAMES = "cars_meta.mat"
_HALVES = {"cars_train": "cars_train_annos.mat", "cars_test": "cars_test_annos_withlabels.mat"}
_BELOW = ("", "devkit", "car_devkit", "car_devkit/devkit", "cars196", "stanford_cars", "stanford_cars/devkit")
_CLASS_FOLDERS_BELOW = ("", "images", "car_data", "car_data/car_data", "cars196", "cars196/images")


@data("cars196")
def cars196(path: str) -> Catalogue:
    """Cars-196 with the zero-shot split of the papers: classes 1 to 98 for training, 99 to 196 for testing.

    ==============  ====================================================================================
    one list        cars_annos.mat with the images it lists (car_ims/000001.jpg)
    devkit          cars_train_annos.mat and cars_test_annos_withlabels.mat with `cars_train` and `cars_test`
    class folders   AM General Hummer SUV 2000 and so on, also inside `images`, or in `train` and `test`
    ==============  ====================================================================================

    Classes have their official numbers, which are not in alphabetical order: those of `cars_meta.mat` if it is there,
    otherwise those that ship with this package. The devkit's two halves are the split of the classification task and
    are not used.

    Raises:  `DataError` for a folder with none of these layouts, for unreadable lists, for missing images
    """
    root = Path(path).expanduser()
    names = _class_names(root)
    list_folder = find_folder(root, _BELOW, _ANNOTATIONS)
    if list_folder is not None:
        images = _annotated_images(list_folder / _ANNOTATIONS, "relative_im_path", names)
        image_root = find_image_root((list_folder, list_folder.parent, root), [image.path for image in images])
        return CARS196.catalogue(image_root, images, names)
    halves = {half: find_folder(root, _BELOW, file) for half, file in _HALVES.items()}
    if any(halves.values()):
        return _from_devkit(root, halves, names)
    number_of = {_letters(name): number for number, name in names.items()}
    below = _CLASS_FOLDERS_BELOW
    catalogue = CARS196.from_class_folders(root, below, lambda name: number_of.get(_letters(name)), names)
    if catalogue is None:
        raise CARS196.wrong_folder(
            root,
            f"{_ANNOTATIONS}, {' with '.join(_HALVES.values())}, or class folders such as AM General Hummer SUV 2000",
        )
    return catalogue


def official_names() -> dict[int, str]:
    """Return the class names by their official numbers, 1 to 196."""
    names = json.loads((files("unseen.data.sources") / "cars196.json").read_text(encoding="utf-8"))
    return dict(enumerate(names, start=1))


def _from_devkit(root: Path, halves: dict[str, Path | None], names: dict[int, str]) -> Catalogue:
    by_folder: dict[Path, list[ListedImage]] = {}
    for half, list_folder in halves.items():
        if list_folder is None:
            # The devkit's own list of the test half has no classes; the one with classes is a separate file.
            raise DataError(
                f"cars196: {_HALVES[half]} is not in {root}", hint="Both lists with classes are needed for the devkit."
            )
        images = _annotated_images(list_folder / _HALVES[half], "fname", names)
        candidates = [above / half for above in (root, list_folder, list_folder.parent)]
        candidates += [folder / half for folder in candidates]  # some archives nest a folder in one of the same name
        by_folder[find_image_root(candidates, [image.path for image in images])] = images
    image_root = Path(os.path.commonpath(by_folder))
    listed = [
        image._replace(path=(folder.relative_to(image_root) / image.path).as_posix())
        for folder, images in by_folder.items()
        for image in images
    ]
    return CARS196.catalogue(image_root, listed, names)


def _annotated_images(file: Path, path_field: str, names: dict[int, str]) -> list[ListedImage]:
    annotations = _matlab_array(file, "annotations")
    for field in (path_field, "class"):
        if field not in (annotations.dtype.names or ()):
            raise DataError(f"{file}: the annotations have no field '{field}'", got=annotations.dtype.names)
    images = []
    for path, number in zip(annotations[path_field], annotations["class"], strict=True):
        if int(number) not in names:
            raise DataError(
                f"{file}: '{path}' has a class that does not exist", got=int(number), hint="Classes are 1 to 196."
            )
        images.append(CARS196.zero_shot_image(str(path), int(number)))
    if not images:
        raise DataError(f"{file} lists no images")
    return images


def _class_names(root: Path) -> dict[int, str]:
    list_folder = find_folder(root, _BELOW, _NAMES)
    if list_folder is None:
        return official_names()
    return dict(enumerate(map(str, _matlab_array(list_folder / _NAMES, "class_names")), start=1))


def _matlab_array(file: Path, variable: str) -> np.ndarray:
    """Read a variable of a MATLAB file; the reader runs no code of the file."""
    from scipy.io import loadmat  # slow to import, and needed for these files only

    try:
        content = loadmat(file, squeeze_me=True)
    except Exception as problem:  # a parser given arbitrary bytes may raise anything
        raise DataError(f"{file} cannot be read as a MATLAB file: {' '.join(str(problem).split())}") from None
    if variable not in content:
        raise DataError(f"{file} has no variable '{variable}'", got=sorted(key for key in content if key[0] != "_"))
    return np.atleast_1d(content[variable])


def _letters(name: str) -> str:
    # Copies write "Ram C/V" as "Ram C-V" or "Ram C_V", since a folder name cannot contain a slash.
    return "".join(letter for letter in name.casefold() if letter.isalnum())
