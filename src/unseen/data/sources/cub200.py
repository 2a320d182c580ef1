"""CUB-200-2011: birds of 200 species; the first hundred train, the others test."""

import re
from pathlib import Path

from unseen.core.errors import DataError
from unseen.core.registry import data
from unseen.data.catalogue import Catalogue
from unseen.data.sources._benchmark import (
    ListedImage,
    PublishedCounts,
    benchmark_catalogue,
    find_folder,
    find_image_root,
    parse_integer,
    read_columns,
    scan_class_folders,
    wrong_folder_error,
)

PUBLISHED = {"train": PublishedCounts(5_864, 100), "test": PublishedCounts(5_924, 100)}

_LISTS = ("images.txt", "image_class_labels.txt", "classes.txt")
_BELOW = ("", "CUB_200_2011", "CUB_200_2011/CUB_200_2011")


@data("cub200")
def cub200(path: str) -> Catalogue:
    """CUB-200-2011 with the zero-shot split of the papers: classes 1 to 100 train, 101 to 200 test.

    ==============  ====================================================================================
    official        images.txt, image_class_labels.txt and classes.txt, with `images` below or beside
    class folders   001.Black_footed_Albatross and so on, also inside `images`, or parted into `train` and `test`
    ==============  ====================================================================================

    The path may be that folder or the one that holds `CUB_200_2011`. `train_test_split.txt` is the split of the
    classification task and plays no part.

    Raises:  `DataError` for a folder that holds neither, for lists that contradict each other, for missing images
    """
    root = Path(path).expanduser()
    place = find_folder(root, _BELOW, _LISTS[0])
    if place is not None:
        return _from_lists(place)
    below = [f"{outer}/{inner}" for outer in _BELOW for inner in ("", "images")]
    found = scan_class_folders("cub200", root, [each.strip("/") for each in below], _number_in)
    if found is None:
        raise wrong_folder_error(
            "cub200", root, f"{', '.join(_LISTS)} or class folders such as 001.Black_footed_Albatross"
        )
    place, images, notes = found
    # Images may lie deeper inside a class's folder, which is then not the last one of the path.
    names = {number: next(part for part in file.split("/") if _number_in(part)) for file, number in images}
    return benchmark_catalogue(
        "cub200", place, [_listed(*image) for image in images], class_names=names, published=PUBLISHED, notes=notes
    )


def _from_lists(place: Path) -> Catalogue:
    lacking = [name for name in _LISTS if not (place / name).is_file()]
    if lacking:
        raise DataError(
            f"cub200: {place} has images.txt and lacks {', '.join(lacking)}", hint="Use the official files."
        )
    files, classes, names = (
        {parse_integer(place / name, number): value for number, value in read_columns(place / name, 2)}
        for name in _LISTS
    )
    if files.keys() != classes.keys():
        other = sorted(files.keys() ^ classes.keys())
        raise DataError(f"cub200: image {other[0]} stands in only one of {_LISTS[0]} and {_LISTS[1]} in {place}")
    numbers = {image: parse_integer(place / _LISTS[1], number) for image, number in classes.items()}
    nameless = sorted(set(numbers.values()) - names.keys())
    if nameless:
        raise DataError(f"cub200: class {nameless[0]} of {_LISTS[1]} has no name in {place / _LISTS[2]}")
    images = [_listed(file, numbers[image]) for image, file in files.items()]
    root = find_image_root((place / "images", place.parent / "images", place), [image.path for image in images])
    return benchmark_catalogue("cub200", root, images, class_names=names, published=PUBLISHED)


def _listed(path: str, number: int) -> ListedImage:
    return ListedImage(path, number, "train" if number <= 100 else "test")


def _number_in(name: str) -> int | None:
    found = re.fullmatch(r"(\d{3})\..+", name)
    return int(found[1]) if found and 1 <= int(found[1]) <= 200 else None
