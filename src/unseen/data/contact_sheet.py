"""Contact sheet: a few images of a few classes on one picture, to see at a glance what the data looks like."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unseen.core.checks import check_count
from unseen.core.errors import DataError
from unseen.data.catalogue import SIDES, Catalogue
from unseen.data.sources._glyph_rendering import font_paths
from unseen.data.splits import Split

_CELL = 112
_GAP = 6
_TITLE = 22
_INK, _PALE, _PAPER = (32, 32, 32), (225, 225, 225), (255, 255, 255)


def contact_sheet(
    catalogue: Catalogue, split: Split | None = None, *, classes: int = 12, per_class: int = 8
) -> Image.Image:
    """Draw one row of images per class; classes and images are taken at even intervals of the catalogue's order.

    An image that cannot be decoded is an empty cell.

    Raises:  `DataError` when the catalogue has no images
    """
    check_count("contact_sheet", "classes", classes)
    check_count("contact_sheet", "per_class", per_class)
    if catalogue.reader.kind == "features" and catalogue.reader.image(0) is None:
        raise DataError(f"{catalogue.name}: there are no pictures to show", got=catalogue.reader.kind)
    rows = evenly_spaced(range(len(catalogue.class_names)), classes)
    font = ImageFont.truetype(font_paths()["DejaVuSans"], 14, layout_engine=ImageFont.Layout.BASIC)
    height = _TITLE + _CELL + _GAP
    sheet = Image.new("RGB", (_GAP + per_class * (_CELL + _GAP), len(rows) * height + _GAP), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for row, label in enumerate(rows):
        members = np.flatnonzero(catalogue.labels == label)
        top = row * height
        title = f"{catalogue.class_names[label]}   {_side(split, members)}{len(members):,} images"
        draw.text((_GAP, top + 4), title, fill=_INK, font=font)
        for column, index in enumerate(evenly_spaced(members.tolist(), per_class)):
            sheet.paste(_cell(catalogue, index), (_GAP + column * (_CELL + _GAP), top + _TITLE))
    return sheet


def evenly_spaced(items: Sequence[int], count: int) -> list[int]:
    """Return at most `count` items at even intervals, including the first and the last.

    >>> evenly_spaced(range(10), 4), evenly_spaced([3, 5], 4)
    ([0, 3, 6, 9], [3, 5])
    """
    positions = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(int)
    return [items[position] for position in positions]


def _side(split: Split | None, members: np.ndarray) -> str:
    sides = [side for side in SIDES if split is not None and np.isin(members, getattr(split, side)).any()]
    return f"{sides[0]}, " if sides else ""


def _cell(catalogue: Catalogue, index: int) -> Image.Image:
    cell = Image.new("RGB", (_CELL, _CELL), _PALE)
    with suppress(DataError):
        image = catalogue.reader.image(index)
        if image is not None:
            image.thumbnail((_CELL, _CELL))
            cell.paste(image, ((_CELL - image.width) // 2, (_CELL - image.height) // 2))
    return cell
