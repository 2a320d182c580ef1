"""In-Shop Clothes Retrieval: photographs of 7,982 clothing items; test queries search a gallery."""

from pathlib import Path

from unseen.core.errors import DataError
from unseen.core.registry import data
from unseen.data.catalogue import Catalogue
from unseen.data.sources._benchmark import Benchmark, ListedImage, find_folder, find_image_root, read_columns

INSHOP = Benchmark("inshop", {"train": (25_882, 3_997), "query": (14_218, 3_985), "gallery": (12_612, 3_985)})

_LIST = "list_eval_partition.txt"
_HEADER = ["image_name", "item_id", "evaluation_status"]
_OUTER = "In-shop Clothes Retrieval Benchmark"
_BELOW = ("", "Eval", "eval", "Anno", _OUTER, f"{_OUTER}/Eval")


@data("inshop")
def inshop(path: str) -> Catalogue:
    """In-Shop Clothes Retrieval with its own split: training items, and test items divided into queries and gallery.

    list_eval_partition.txt (image_name item_id evaluation_status) is in the folder or below it in `Eval`; the images
    that it lists (img/WOMEN/...) beside it, beside its folder, or in `Img`.

    Raises:  `DataError` for a folder without the list, for an unknown status, for missing images
    """
    root = Path(path).expanduser()
    list_folder = find_folder(root, _BELOW, _LIST)
    if list_folder is None:
        raise INSHOP.wrong_folder(root, f"{_LIST} or Eval/{_LIST}")
    file = list_folder / _LIST
    stated, rows = _read_list(file)
    for _, _, status in rows:
        if status not in INSHOP.published:
            raise DataError(f"{file}: evaluation_status must be train, query or gallery", got=status)
    names = dict(enumerate(sorted({item for _, item, _ in rows})))
    number_of = {item: number for number, item in names.items()}
    images = [ListedImage(image, number_of[item], status) for image, item, status in rows]
    candidates = [above / below for above in (list_folder, list_folder.parent, root) for below in ("", "Img")]
    image_root = find_image_root(candidates, [image.path for image in images])
    notes = [] if stated == len(rows) else [f"{_LIST} says that it lists {stated:,} images and lists {len(rows):,}"]
    return INSHOP.catalogue(image_root, images, names, notes=notes)


def _read_list(file: Path) -> tuple[int, list[list[str]]]:
    """Return the number of images that the first line states, and the rows below the header."""
    rows = [line[0].split() for line in read_columns(file, 1)]
    has_count = len(rows[0]) == 1 and rows[0][0].isdecimal()
    stated = int(rows.pop(0)[0]) if has_count else None
    if rows and rows[0] == _HEADER:
        rows = rows[1:]
    wrong = next((row for row in rows if len(row) != 3), None)
    if wrong is not None or not rows:
        raise DataError(f"{file}: rows of {' '.join(_HEADER)} are needed", got=" ".join(wrong or []))
    return len(rows) if stated is None else stated, rows
