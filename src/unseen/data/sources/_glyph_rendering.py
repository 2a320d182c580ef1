"""Renders letters in the typefaces of the matplotlib wheel, and finds letters that look alike."""

import hashlib
import math
import unicodedata
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unseen.core.errors import DataError
from unseen.core.randomness import derive, numpy_generator

SCRIPTS = ("Latin", "Greek", "Cyrillic", "Armenian", "Georgian")
LETTERS = ("Lu", "Ll", "Lt", "Lo")
MIN_SAMPLES = 12

# The typefaces in use; random keys contain their position. Left out: LastResort (a placeholder for every character),
# cmex10 and cmsy10 (brackets and operators at the code points of letters), and those without any letter (STIXNonUni,
# STIXSiz, the DejaVu Display faces).
DEJAVU = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
)
STIX = ("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta")
COMPUTER_MODERN = ("cmr10", "cmb10", "cmti10", "cmss10", "cmtt10", "cmmi10")
FONTS = (*DEJAVU, *STIX, *COMPUTER_MODERN)

# As shares of the image size. All letters have the same font size, so that o and O differ.
EM = 0.70
BASELINE = 0.72
MARGIN = 0.03

# Letters are compared at one size without rotation and shift, so that the classes do not depend on the settings.
COMPARED_SIZE = 32
LOOK_ALIKE = 0.975


def script_of(character: str) -> str | None:
    r"""Return the script of a letter, None for any other character.

    Modifier letters (category Lm: marks and small raised or lowered copies of letters) do not count, nor do characters
    whose normal form C is another character.

    >>> [script_of(character) for character in "AЖაא1ₐ\u1fbe"]
    ['Latin', 'Cyrillic', 'Georgian', None, None, None, None]
    """
    if unicodedata.category(character) not in LETTERS or not unicodedata.is_normalized("NFC", character):
        return None
    script = unicodedata.name(character, "").split(" ")[0].capitalize()
    return script if script in SCRIPTS else None


def font_paths() -> dict[str, Path]:
    """Return the files of the typefaces in the installed matplotlib."""
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    paths = {font: folder / f"{font}.ttf" for font in FONTS}
    missing = [font for font, path in paths.items() if not path.is_file()]
    if missing:
        raise DataError(
            f"glyphs: matplotlib {matplotlib.__version__} comes without {', '.join(missing)}",
            hint="Install matplotlib from its wheel on PyPI.",
        )
    return paths


def letters_of(font: str, path: Path) -> list[str]:
    """Return the letters in a typeface's character map, ordered by code point."""
    from matplotlib.ft2font import FT2Font  # slow to import, and not needed when the images are cached

    characters = (chr(code) for code, glyph in sorted(FT2Font(str(path)).get_charmap().items()) if glyph)
    letters = [character for character in characters if script_of(character) is not None]
    # Computer Modern has ligatures and accents of its own at the code points of À to Ä.
    return [letter for letter in letters if letter.isascii()] if font in COMPUTER_MODERN else letters


class GlyphPainter:
    """Draws the letters of one typeface on a canvas `oversampling` times as wide as the image."""

    def __init__(self, path: Path, size: int) -> None:
        self.size = size
        self.oversampling = 3 if size <= 48 else 2
        self.side = size * self.oversampling
        self._em = round(EM * self.side)
        self._fonts = {self._em: ImageFont.truetype(path, self._em, layout_engine=ImageFont.Layout.BASIC)}

    def draw(self, letter: str) -> Image.Image:
        """Draw a letter upright, centred horizontally, on the baseline; a black canvas if the glyph is empty."""
        canvas = Image.new("L", (self.side, self.side))
        baseline, margin = round(BASELINE * self.side), MARGIN * self.side
        ink, top = self._ink(letter, self._em)
        if ink is None:
            return canvas
        # Glyphs larger than the image (a digraph, stacked accents) are drawn smaller, never cropped.
        scale = min(
            (self.side - 2 * margin) / ink.width,
            (baseline - margin) / max(-top, 1),
            (self.side - margin - baseline) / max(top + ink.height, 1),
        )
        if scale < 1:
            ink, top = self._ink(letter, math.floor(self._em * scale))
        if ink is not None:
            canvas.paste(ink, ((self.side - ink.width) // 2, baseline + top))
        return canvas

    def _ink(self, letter: str, em: int) -> tuple[Image.Image | None, int]:
        """Return the letter cropped to its ink, and the position of its top below the baseline."""
        if em not in self._fonts:
            self._fonts[em] = self._fonts[self._em].font_variant(size=em)
        # Drawn on a large sheet and cropped: Pillow's own bounding box includes the space beside the ink.
        sheet = Image.new("L", (2 * self.side, 2 * self.side))
        origin = (self.side // 2, self.side)
        ImageDraw.Draw(sheet).text(origin, letter, font=self._fonts[em], fill=255, anchor="ls")
        box = sheet.getbbox()
        return (sheet.crop(box), box[1] - self.side) if box else (None, 0)

    def move(self, canvas: Image.Image, degrees: float, right: float, down: float) -> np.ndarray:
        """Rotate a canvas anticlockwise, shift it by shares of its size, and reduce it to the image."""
        cosine, sine, centre = math.cos(math.radians(degrees)), math.sin(math.radians(degrees)), self.side / 2
        x, y = centre + right * self.side, centre + down * self.side
        # Pillow needs the inverse map: where on the canvas each point of the image comes from.
        inverse = (cosine, -sine, centre - cosine * x + sine * y, sine, cosine, centre - sine * x - cosine * y)
        moved = canvas.transform(canvas.size, Image.Transform.AFFINE, inverse, Image.Resampling.BILINEAR)
        return np.asarray(moved.reduce(self.oversampling))


def look_alikes(upright: np.ndarray, present: np.ndarray, threshold: float = LOOK_ALIKE) -> np.ndarray:
    """Return which pairs of characters look alike.

    Two characters are look-alikes when the cosine similarity of their upright images, averaged over the typefaces
    that have both, is at least `threshold`. A character is not its own look-alike.

    Shape:  images (fonts, characters, pixels) of uint8 and presence (fonts, characters) -> (characters, characters)
    Empty:  characters without a common typeface are not look-alikes
    """
    count = upright.shape[1]
    total, shared = np.zeros((count, count)), np.zeros((count, count))
    for images, has in zip(upright, present, strict=True):
        # With 16 levels of grey every sum is an integer below 2^24: exact in float32 in any order of summation.
        levels = (images[has] >> 4).astype(np.float32)
        products = (levels @ levels.T).astype(np.float64)
        lengths = np.sqrt(np.maximum(np.diagonal(products), 1))
        total[np.ix_(has, has)] += products / np.outer(lengths, lengths)
        shared[np.ix_(has, has)] += 1
    alike = (shared > 0) & (total >= threshold * shared)
    np.fill_diagonal(alike, False)
    return alike


def first_of_look_alikes(alike: np.ndarray) -> list[int]:
    """Return the positions to keep: in order, each one that looks like no earlier one that is kept.

    >>> first_of_look_alikes(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool))
    [0, 2]
    """
    kept: list[int] = []
    for position in range(len(alike)):
        if not alike[position, kept].any():
            kept.append(position)
    return kept


def choose_classes(paths: dict[str, Path]) -> dict[str, list[str]]:
    """Return the letters that are classes, ordered by code point, each with the typefaces of its samples.

    1. A letter's samples are the typefaces with a non-empty glyph for it. Of typefaces that draw it with the same
       pixels, the first counts.
    2. A letter with fewer than `MIN_SAMPLES` samples is not a class.
    3. In the order of code points, a letter is dropped if it looks like one that was kept (`look_alikes`). So no two
       classes are look-alikes, and every dropped letter looks like a class.
    """
    mapped = {font: letters_of(font, path) for font, path in paths.items()}
    counts = Counter(letter for letters in mapped.values() for letter in letters)
    candidates = sorted(letter for letter, count in counts.items() if count >= MIN_SAMPLES)

    upright = np.zeros((len(paths), len(candidates), COMPARED_SIZE**2), np.uint8)
    present = np.zeros((len(paths), len(candidates)), bool)
    samples: list[dict[bytes, str]] = [{} for _ in candidates]
    for font_number, (font, path) in enumerate(paths.items()):
        painter, has = GlyphPainter(path, COMPARED_SIZE), set(mapped[font])
        for position, letter in enumerate(candidates):
            canvas = painter.draw(letter) if letter in has else None
            if canvas is not None and canvas.getbbox() is not None:
                samples[position].setdefault(hashlib.sha256(canvas.tobytes()).digest(), font)
                upright[font_number, position] = np.asarray(canvas.reduce(painter.oversampling)).ravel()
                present[font_number, position] = True

    enough = [position for position, fonts in enumerate(samples) if len(fonts) >= MIN_SAMPLES]
    kept = first_of_look_alikes(look_alikes(upright[:, enough], present[:, enough]))
    return {candidates[position]: list(samples[position].values()) for position in (enough[index] for index in kept)}


class RenderSettings(NamedTuple):
    """Image size in pixels, seed, and the largest rotation in degrees and shift as a share of the size."""

    size: int
    seed: int
    rotation: float
    shift: float


def render(paths: dict[str, Path], classes: dict[str, list[str]], settings: RenderSettings) -> np.ndarray:
    """Render all samples, class by class, white on black.

    Rotations and shifts are uniform in both directions and depend on seed, character and typeface only.

    Shape:  N samples -> (N, size, size) of uint8
    """
    size, shift = settings.size, settings.shift
    painters = {font: GlyphPainter(path, size) for font, path in paths.items()}
    pixels = np.empty((sum(map(len, classes.values())), size, size), np.uint8)
    samples = ((letter, font) for letter, fonts in classes.items() for font in fonts)
    for position, (letter, font) in enumerate(samples):
        canvas = painters[font].draw(letter)
        key = derive(settings.seed, "glyphs", ord(letter), FONTS.index(font))
        turn, right, down = numpy_generator(key).uniform(-1, 1, 3)
        pixels[position] = painters[font].move(canvas, turn * settings.rotation, right * shift, down * shift)
    return pixels
