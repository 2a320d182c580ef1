"""Stanford Online Products: photographs of 22,634 products in 12 categories, half of the products for each side."""

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
    wrong_folder_error,
)

PUBLISHED = {"train": PublishedCounts(59_551, 11_318), "test": PublishedCounts(60_502, 11_316)}

_LISTS = {"train": "Ebay_train.txt", "test": "Ebay_test.txt"}
_BELOW = ("", "Stanford_Online_Products", "Info_Files")


@data("sop")
def sop(path: str) -> Catalogue:
    """Stanford Online Products with its own split by products; the groups of classes are its 12 categories.

    Ebay_train.txt and Ebay_test.txt (image_id class_id super_class_id path) lie in the folder, or below it in
    `Stanford_Online_Products` or `Info_Files`; the images beside them or in `images`.

    Raises:  `DataError` for a folder without these lists, for lists that contradict themselves, for missing images
    """
    root = Path(path).expanduser()
    place = find_folder(root, _BELOW, _LISTS["train"])
    if place is None or not (place / _LISTS["test"]).is_file():
        raise wrong_folder_error("sop", root if place is None else place, " and ".join(_LISTS.values()))
    images = []
    groups: dict[int, int] = {}
    names: dict[int, str] = {}
    for part, file in _LISTS.items():
        for _, product, category, image in _rows(place / file):
            number, group = parse_integer(place / file, product), parse_integer(place / file, category)
            images.append(ListedImage(image, number, part))
            names.setdefault(group, image.split("/")[0].removesuffix("_final"))
            if groups.setdefault(number, group) != group:
                raise DataError(f"{place / file}: class {number} is in the super-classes {groups[number]} and {group}")
    where = find_image_root((place, place / "images", root, root / "images"), [image.path for image in images])
    return benchmark_catalogue(
        "sop",
        where,
        images,
        class_names={number: str(number) for number in groups},
        class_groups={number: names[group] for number, group in groups.items()},
        published=PUBLISHED,
    )


def _rows(file: Path) -> list[list[str]]:
    rows = read_columns(file, 4)
    return rows[1:] if rows[0][0] == "image_id" else rows
