"""CUB-200-2011: birds of 200 species; the first hundred for training, the others for testing."""

import re
from pathlib import Path

from unseen.core.errors import DataError
from unseen.core.registry import data
from unseen.data.catalogue import Catalogue
from unseen.data.sources._benchmark import Benchmark, find_folder, find_image_root, parse_integer, read_columns

CUB200 = Benchmark("cub200", {"train": (5_864, 100), "test": (5_924, 100)})

_LISTS = ("images.txt", "image_class_labels.txt", "classes.txt")
_BELOW = ("", "CUB_200_2011", "CUB_200_2011/CUB_200_2011")


@data("cub200")
def cub200(path: str) -> Catalogue:
    """CUB-200-2011 with the zero-shot split of the papers: classes 1 to 100 for training, 101 to 200 for testing.

    ==============  ====================================================================================
    official        images.txt, image_class_labels.txt and classes.txt, with `images` below or beside
    class folders   001.Black_footed_Albatross and so on, also inside `images`, or in `train` and `test`
    ==============  ====================================================================================

    The path may be that folder or the one that contains `CUB_200_2011`. `train_test_split.txt` is the split of the
    classification task and is not used.

    Raises:  `DataError` for a folder with neither layout, for inconsistent lists, for missing images
    """
    root = Path(path).expanduser()
    list_folder = find_folder(root, _BELOW, _LISTS[0])
    if list_folder is not None:
        return _from_lists(list_folder)
    below = [f"{outer}/{inner}".strip("/") for outer in _BELOW for inner in ("", "images")]
    catalogue = CUB200.from_class_folders(root, below, _class_number)
    if catalogue is None:
        raise CUB200.wrong_folder(root, f"{', '.join(_LISTS)} or class folders such as 001.Black_footed_Albatross")
    return catalogue


def _from_lists(list_folder: Path) -> Catalogue:
    missing = [name for name in _LISTS if not (list_folder / name).is_file()]
    if missing:
        raise DataError(
            f"cub200: {list_folder} has images.txt and lacks {', '.join(missing)}", hint="Use the official files."
        )
    files, classes, names = (
        {parse_integer(list_folder / name, number): value for number, value in read_columns(list_folder / name, 2)}
        for name in _LISTS
    )
    if files.keys() != classes.keys():
        unmatched = sorted(files.keys() ^ classes.keys())
        raise DataError(f"cub200: image {unmatched[0]} is in only one of {_LISTS[0]} and {_LISTS[1]} in {list_folder}")
    numbers = {image: parse_integer(list_folder / _LISTS[1], number) for image, number in classes.items()}
    nameless = sorted(set(numbers.values()) - names.keys())
    if nameless:
        raise DataError(f"cub200: class {nameless[0]} of {_LISTS[1]} has no name in {list_folder / _LISTS[2]}")
    images = [CUB200.zero_shot_image(file, numbers[image]) for image, file in files.items()]
    root = find_image_root(
        (list_folder / "images", list_folder.parent / "images", list_folder), [image.path for image in images]
    )
    return CUB200.catalogue(root, images, names)


def _class_number(name: str) -> int | None:
    match = re.fullmatch(r"(\d{3})\..+", name)
    return int(match[1]) if match and 1 <= int(match[1]) <= 200 else None
