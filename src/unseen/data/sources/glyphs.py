"""The data set that ships with the package: characters are classes, the typefaces of matplotlib's wheel are samples."""

import hashlib
import io
import logging
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.checks import check_between, check_count
from unseen.core.config import hash_of
from unseen.core.errors import ConfigError, DataError
from unseen.core.files import read_json, write_bytes, write_json
from unseen.core.paths import cache_folder
from unseen.core.randomness import derive, numpy_generator
from unseen.core.registry import data
from unseen.data.catalogue import Catalogue
from unseen.data.item_readers import ImagesInMemory
from unseen.data.sources._glyph_rendering import choose_classes, font_paths, render, script_of

# Raised with every change that moves a pixel or a class: pictures of an older version are not taken from the cache.
VERSION = 1
SIZES = (8, 256)

_log = logging.getLogger("unseen")


@data("glyphs")
def glyphs(
    *,
    size: int = 32,
    seed: int = 0,
    rotation: float = 10.0,
    shift: float = 0.044,
    max_per_class: int | None = None,
    cache: str | None = None,
) -> Catalogue:
    """Letters of five scripts as classes, each drawn in 12 to 22 typefaces; grey, white on black.

    ==============  ===================================================================================
    size            side of a picture in pixels
    seed            of the rotations and shifts, and of the choice that `max_per_class` makes
    rotation        largest turn either way, in degrees
    shift           largest shift either way, across and down, as a share of the side
    max_per_class   number of typefaces that a class keeps at most, all of them if none
    cache           folder of rendered pictures; by default $UNSEEN_CACHE or the user's cache folder
    ==============  ===================================================================================

    The classes are the same for every setting. The defaults leave raw pixels (cosine) at about 25 % recall@1 among
    all the classes and 34 % among a random half of them. A cache that cannot be written is done without.

    Raises:  `ConfigError` for a setting out of range, `DataError` when matplotlib comes without its fonts
    """
    check_count("glyphs", "size", size)
    check_between("glyphs", "size", size, *SIZES)
    check_count("glyphs", "seed", seed, at_least=0)
    check_between("glyphs", "rotation", rotation, 0, 180)
    check_between("glyphs", "shift", shift, 0, 0.5)
    if max_per_class is not None:
        check_count("glyphs", "max_per_class", max_per_class, at_least=2)
    if cache is not None and (not isinstance(cache, str) or not cache or "\0" in cache):
        raise ConfigError("glyphs: cache must be the path of a folder", got=cache)

    settings = {"size": size, "seed": seed, "rotation": float(rotation), "shift": float(shift)}
    classes, pixels = _rendered(settings, cache_folder() if cache is None else Path(cache).expanduser())
    if max_per_class is not None:
        classes, pixels = _fewer(classes, pixels, max_per_class, seed)
    return Catalogue(
        name="glyphs",
        reader=ImagesInMemory(pixels),
        labels=np.repeat(np.arange(len(classes), dtype=np.int64), [len(fonts) for fonts in classes.values()]),
        class_names=tuple(f"{letter} {unicodedata.name(letter)}" for letter in classes),
        ids=tuple(f"{_code(letter)} {font}" for letter, fonts in classes.items() for font in fonts),
        class_groups=tuple(str(script_of(letter)) for letter in classes),
    )


def _code(letter: str) -> str:
    return f"U+{ord(letter):04X}"


def _fewer(
    classes: dict[str, list[str]], pixels: np.ndarray, most: int, seed: int
) -> tuple[dict[str, list[str]], np.ndarray]:
    """At most so many samples a class, chosen at random by the class's own key, in the order they had."""
    fewer, places, start = {}, [], 0
    for letter, fonts in classes.items():
        order = numpy_generator(derive(seed, "glyphs of a class", ord(letter))).permutation(len(fonts))
        chosen = sorted(order[:most].tolist())
        fewer[letter] = [fonts[place] for place in chosen]
        places += [start + place for place in chosen]
        start += len(fonts)
    return fewer, pixels[places]


def _made_by(settings: dict[str, Any]) -> dict[str, Any]:
    """All that decides about the pictures; its hash names the cache entry."""
    import matplotlib
    import PIL
    from PIL import features

    return {
        "glyphs": VERSION,
        "settings": settings,
        "matplotlib": matplotlib.__version__,
        "pillow": PIL.__version__,
        "freetype": features.version("freetype2"),
        "unicode": unicodedata.unidata_version,
    }


def _rendered(settings: dict[str, Any], folder: Path | None) -> tuple[dict[str, list[str]], np.ndarray]:
    """Typefaces by character, and pictures: from the cache if it holds them whole, otherwise rendered and kept."""
    made_by = _made_by(settings)
    entry = folder / f"glyphs-{hash_of(made_by)}" if folder is not None else None
    if entry is not None:
        try:
            return _read(entry, made_by)
        except FileNotFoundError:
            pass
        except (DataError, OSError, ValueError) as problem:
            _log.warning("glyphs: the cache entry %s is not usable (%s); rendering anew", entry, problem)
    paths = font_paths()
    classes = choose_classes(paths)
    pixels = render(paths, classes, **settings)
    if entry is not None:
        try:
            _write(entry, made_by, classes, pixels)
        except OSError as problem:
            _log.warning("glyphs: the cache entry %s cannot be written (%s); going on without", entry, problem)
    return classes, pixels


def _write(entry: Path, made_by: dict[str, Any], classes: dict[str, list[str]], pixels: np.ndarray) -> None:
    # Two writers of one entry write the same bytes, so it does not matter whose file of the two came last.
    content = io.BytesIO()
    np.save(content, pixels, allow_pickle=False)
    write_bytes(entry.with_suffix(".npy"), content.getvalue())
    index = {
        "made_by": made_by,
        "classes": [[letter, fonts] for letter, fonts in classes.items()],
        "sha256": hashlib.sha256(content.getvalue()).hexdigest(),
    }
    # The index comes last: where it stands, the pictures stand.
    write_json(entry.with_suffix(".json"), {"index": index, "hash": hash_of(index)})


def _read(entry: Path, made_by: dict[str, Any]) -> tuple[dict[str, list[str]], np.ndarray]:
    """The content of a cache entry; nothing of it is trusted before its hashes are right."""
    if not entry.with_suffix(".json").exists():
        raise FileNotFoundError(entry.with_suffix(".json"))
    record = read_json(entry.with_suffix(".json"))
    if not isinstance(record, dict) or record.get("hash") != hash_of(record.get("index")):
        raise DataError("its index is damaged")
    index = record.get("index")
    if not isinstance(index, dict) or index.get("made_by") != made_by:
        raise DataError("it was made by something else")
    try:
        content = entry.with_suffix(".npy").read_bytes()
    except FileNotFoundError:
        raise DataError("its pictures are missing") from None
    if hashlib.sha256(content).hexdigest() != index["sha256"]:
        raise DataError("its pictures are damaged")
    return dict(index["classes"]), np.load(io.BytesIO(content), allow_pickle=False)
