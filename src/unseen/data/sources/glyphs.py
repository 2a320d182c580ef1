"""The data set that ships with the package: a class is a character, its samples are matplotlib's typefaces."""

import hashlib
import io
import logging
import unicodedata
from pathlib import Path

import numpy as np

from unseen.core.checks import check_between, check_count
from unseen.core.config import Record, hash_of
from unseen.core.errors import ConfigError, DataError
from unseen.core.files import read_json, write_bytes, write_json
from unseen.core.folders import cache_folder
from unseen.core.randomness import derive, numpy_generator
from unseen.core.registry import data
from unseen.data.catalogue import Catalogue
from unseen.data.item_readers import ImagesInMemory
from unseen.data.sources._glyph_rendering import RenderSettings, choose_classes, font_paths, render, script_of

# Incremented with every change of a pixel or a class: images of an older version are not read from the cache.
VERSION = 1
SIZES = (8, 256)

_log = logging.getLogger("unseen")

Typefaces = dict[str, list[str]]


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
    """Letters of five scripts as classes, each rendered in 12 to 22 typefaces; greyscale, white on black.

    ==============  ===================================================================================
    size            width and height of an image in pixels
    seed            of the rotations and shifts, and of the samples that `max_per_class` selects
    rotation        largest rotation in either direction, in degrees
    shift           largest horizontal and vertical shift, as a share of the size
    max_per_class   largest number of typefaces per class; None for all
    cache           folder of rendered images; the user's cache folder by default
    ==============  ===================================================================================

    The classes are the same for all settings. With the defaults, cosine similarity of raw pixels has about 25 %
    recall@1 among all classes and 34 % among a random half of them. Without a writable cache, images are rendered in
    memory.

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

    settings = RenderSettings(size, seed, float(rotation), float(shift))
    classes, pixels = _load_or_render(settings, _default_cache() if cache is None else Path(cache).expanduser())
    if max_per_class is not None:
        classes, pixels = _subsample(classes, pixels, max_per_class, seed)
    return Catalogue(
        name="glyphs",
        reader=ImagesInMemory(pixels),
        labels=np.repeat(np.arange(len(classes), dtype=np.int64), [len(fonts) for fonts in classes.values()]),
        class_names=tuple(f"{letter} {unicodedata.name(letter)}" for letter in classes),
        ids=tuple(f"U+{ord(letter):04X} {font}" for letter, fonts in classes.items() for font in fonts),
        class_groups=tuple(str(script_of(letter)) for letter in classes),
    )


def _default_cache() -> Path | None:
    try:
        return cache_folder()
    except ConfigError as problem:
        _log.warning("glyphs: %s; rendering in memory", problem)
        return None


def _subsample(classes: Typefaces, pixels: np.ndarray, limit: int, seed: int) -> tuple[Typefaces, np.ndarray]:
    """Select at most `limit` random samples per class, in their order."""
    selected, positions, start = {}, [], 0
    for letter, fonts in classes.items():
        order = numpy_generator(derive(seed, "glyphs of a class", ord(letter))).permutation(len(fonts))
        chosen = sorted(order[:limit].tolist())
        selected[letter] = [fonts[position] for position in chosen]
        positions += [start + position for position in chosen]
        start += len(fonts)
    return selected, pixels[positions]


def _cache_key(settings: RenderSettings) -> Record:
    """Return everything that determines the images; its hash names the cache entry."""
    import matplotlib
    import PIL
    from PIL import features

    return {
        "glyphs": VERSION,
        "settings": settings._asdict(),
        "matplotlib": matplotlib.__version__,
        "pillow": PIL.__version__,
        "freetype": features.version("freetype2"),
        "unicode": unicodedata.unidata_version,
    }


def _load_or_render(settings: RenderSettings, folder: Path | None) -> tuple[Typefaces, np.ndarray]:
    """Return the typefaces of each character and the images, from the cache or rendered and cached."""
    made_by = _cache_key(settings)
    entry = folder / f"glyphs-{hash_of(made_by)}" if folder is not None else None
    if entry is not None and entry.with_suffix(".json").exists():
        try:
            return _read(entry, made_by)
        except (DataError, OSError, ValueError) as problem:
            _log.warning("glyphs: the cache entry %s is not usable (%s); rendering again", entry, problem)
    paths = font_paths()
    classes = choose_classes(paths)
    pixels = render(paths, classes, settings)
    if entry is not None:
        try:
            _write(entry, made_by, classes, pixels)
        except OSError as problem:
            _log.warning("glyphs: the cache entry %s cannot be written (%s); continuing without", entry, problem)
    return classes, pixels


def _write(entry: Path, made_by: Record, classes: Typefaces, pixels: np.ndarray) -> None:
    # Two processes that write one entry write the same bytes, so it does not matter which one is last.
    content = io.BytesIO()
    np.save(content, pixels, allow_pickle=False)
    write_bytes(entry.with_suffix(".npy"), content.getvalue())
    index = {
        "made_by": made_by,
        "classes": [[letter, fonts] for letter, fonts in classes.items()],
        "sha256": hashlib.sha256(content.getvalue()).hexdigest(),
    }
    # The index comes last: if it exists, so do the images.
    write_json(entry.with_suffix(".json"), {"index": index, "hash": hash_of(index)})


def _read(entry: Path, made_by: Record) -> tuple[Typefaces, np.ndarray]:
    """Read a cache entry after verifying its hashes."""
    record = read_json(entry.with_suffix(".json"))
    if not isinstance(record, dict) or record.get("hash") != hash_of(record.get("index")):
        raise DataError("its index is damaged")
    index = record.get("index")
    if not isinstance(index, dict) or index.get("made_by") != made_by:
        raise DataError("it was made by another version")
    try:
        content = entry.with_suffix(".npy").read_bytes()
    except FileNotFoundError:
        raise DataError("its images are missing") from None
    if hashlib.sha256(content).hexdigest() != index["sha256"]:
        raise DataError("its images are damaged")
    return dict(index["classes"]), np.load(io.BytesIO(content), allow_pickle=False)
