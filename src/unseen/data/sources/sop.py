"""Stanford Online Products: photographs of 22,634 products in 12 categories, half of the products on each side."""

from pathlib import Path

from unseen.core.errors import DataError
from unseen.core.registry import data
from unseen.data.catalogue import Catalogue
from unseen.data.sources._benchmark import (
    Benchmark,
    ListedImage,
    find_folder,
    find_image_root,
    parse_integer,
    read_columns,
)

SOP = Benchmark("sop", {"train": (59_551, 11_318), "test": (60_502, 11_316)})

_LISTS = {"train": "Ebay_train.txt", "test": "Ebay_test.txt"}
_BELOW = ("", "Stanford_Online_Products", "Info_Files")


@data("sop")
def sop(path: str) -> Catalogue:
    """Stanford Online Products with its own split by products; the groups of classes are its 12 categories.

    Ebay_train.txt and Ebay_test.txt (image_id class_id super_class_id path) are in the folder, or below it in
    `Stanford_Online_Products` or `Info_Files`; the images beside them or in `images`.

    Raises:  `DataError` for a folder without these lists, for inconsistent lists, for missing images
    """
    root = Path(path).expanduser()
    list_folder = find_folder(root, _BELOW, _LISTS["train"])
    if list_folder is None or not (list_folder / _LISTS["test"]).is_file():
        raise SOP.wrong_folder(root if list_folder is None else list_folder, " and ".join(_LISTS.values()))
    images = []
    category_of: dict[int, int] = {}
    category_names: dict[int, str] = {}
    for part, name in _LISTS.items():
        file = list_folder / name
        rows = read_columns(file, 4)
        for _, class_id, super_class_id, image in rows[1:] if rows[0][0] == "image_id" else rows:
            product, category = parse_integer(file, class_id), parse_integer(file, super_class_id)
            images.append(ListedImage(image, product, part))
            category_names.setdefault(category, image.split("/")[0].removesuffix("_final"))
            if category_of.setdefault(product, category) != category:
                raise DataError(
                    f"{file}: class {product} is in the super-classes {category_of[product]} and {category}"
                )
    candidates = (list_folder, list_folder / "images", root, root / "images")
    return SOP.catalogue(
        find_image_root(candidates, [image.path for image in images]),
        images,
        {product: str(product) for product in category_of},
        class_groups={product: category_names[category] for product, category in category_of.items()},
    )
