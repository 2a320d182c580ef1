"""Renders letters in the typefaces of the matplotlib wheel, and finds the letters that cannot be told apart."""

import hashlib
import math
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unseen.core.errors import DataError
from unseen.core.randomness import derive, numpy_generator

SCRIPTS = ("Latin", "Greek", "Cyrillic", "Armenian", "Georgian")
LETTERS = ("Lu", "Ll", "Lt", "Lo")
MIN_SAMPLES = 12

# The typefaces that were looked at, in the order that numbers them. Left out: LastResort (a placeholder for every
# character), cmex10 and cmsy10 (brackets and operators in the places of letters), and those without any letter
# (STIXNonUni, STIXSiz, the DejaVu Display faces).
DEJAVU = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
)
STIX = ("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta")
COMPUTER_MODERN = ("cmr10", "cmb10", "cmti10", "cmss10", "cmtt10", "cmmi10")
FONTS = (*DEJAVU, *STIX, *COMPUTER_MODERN)

# In shares of the picture's side: one size of type for all letters, so that o and O stay two letters.
EM = 0.70
BASELINE = 0.72
MARGIN = 0.03

# Letters are compared without rotation and shift at one size, so that every size has the same classes.
COMPARED_SIZE = 32
LOOK_ALIKE = 0.975


def script_of(character: str) -> str | None:
    r"""The script of a letter, None for what is no letter of the five scripts.

    Modifier letters (category Lm) are none: they are marks and small copies of letters, raised or lowered. Nor are
    characters that Unicode itself takes for another one (their normal form C is another).

    >>> [script_of(character) for character in "AЖაא1ₐ\u1fbe"]
    ['Latin', 'Cyrillic', 'Georgian', None, None, None, None]
    """
    if unicodedata.category(character) not in LETTERS or not unicodedata.is_normalized("NFC", character):
        return None
    script = unicodedata.name(character, "").split(" ")[0].capitalize()
    return script if script in SCRIPTS else None


def font_paths() -> dict[str, Path]:
    """Where the typefaces lie in the installed matplotlib."""
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    paths = {font: folder / f"{font}.ttf" for font in FONTS}
    missing = [font for font, path in paths.items() if not path.is_file()]
    if missing:
        raise DataError(
            f"glyphs: matplotlib {matplotlib.__version__} comes without {', '.join(missing)}",
            hint="Use matplotlib as its wheel on PyPI holds it.",
        )
    return paths


def letters_of(font: str, path: Path) -> list[str]:
    """The letters that a typeface claims to have, in the order of their code points."""
    from matplotlib.ft2font import FT2Font  # slow to import, and not needed when the cache holds the pictures

    characters = (chr(code) for code, glyph in sorted(FT2Font(str(path)).get_charmap().items()) if glyph)
    letters = [character for character in characters if script_of(character) is not None]
    # Computer Modern keeps ligatures and accents of its own where Unicode has À to Ä.
    return [letter for letter in letters if letter.isascii()] if font in COMPUTER_MODERN else letters


class GlyphPainter:
    """Draws the letters of one typeface on a canvas that is `oversampling` times as wide as the picture."""

    def __init__(self, path: Path, size: int) -> None:
        self.size = size
        self.oversampling = 3 if size <= 48 else 2
        self.side = size * self.oversampling
        self._em = round(EM * self.side)
        self._fonts = {self._em: ImageFont.truetype(path, self._em, layout_engine=ImageFont.Layout.BASIC)}

    def draw(self, letter: str) -> Image.Image:
        """The letter upright on its canvas, ink centred across, feet on the baseline; black if it has no ink."""
        canvas = Image.new("L", (self.side, self.side))
        baseline, margin = round(BASELINE * self.side), MARGIN * self.side
        ink, top = self._ink(letter, self._em)
        if ink is None:
            return canvas
        # What is larger than the picture (a digraph, a stack of accents) is set in smaller type, never cut off.
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
        """The letter cropped to its ink, and how far below the baseline its top is; None if it has none."""
        if em not in self._fonts:
            self._fonts[em] = self._fonts[self._em].font_variant(size=em)
        # A sheet wide enough for every letter: Pillow's own measure counts the white beside the ink.
        sheet = Image.new("L", (2 * self.side, 2 * self.side))
        origin = (self.side // 2, self.side)
        ImageDraw.Draw(sheet).text(origin, letter, font=self._fonts[em], fill=255, anchor="ls")
        box = sheet.getbbox()
        return (sheet.crop(box), box[1] - self.side) if box else (None, 0)

    def moved(self, canvas: Image.Image, degrees: float, right: float, down: float) -> np.ndarray:
        """The picture of a canvas turned about its centre, anticlockwise, then shifted by shares of its side."""
        cosine, sine, centre = math.cos(math.radians(degrees)), math.sin(math.radians(degrees)), self.side / 2
        x, y = centre + right * self.side, centre + down * self.side
        # Pillow asks for the way back: where on the canvas each point of the picture comes from.
        back = (cosine, -sine, centre - cosine * x + sine * y, sine, cosine, centre - sine * x - cosine * y)
        turned = canvas.transform(canvas.size, Image.Transform.AFFINE, back, Image.Resampling.BILINEAR)
        return np.asarray(turned.reduce(self.oversampling))


def look_alikes(upright: np.ndarray, present: np.ndarray, threshold: float = LOOK_ALIKE) -> np.ndarray:
    """Which characters look like each other in the typefaces that both have.

    Two characters are look-alikes when the cosine between their upright pictures, averaged over the typefaces that
    have both, is at least `threshold`. A character is not its own look-alike.

    Shape:  pictures (fonts, characters, pixels) of uint8 and presence (fonts, characters) -> (characters, characters)
    Empty:  characters that share no typeface are not look-alikes
    """
    count = upright.shape[1]
    total, shared = np.zeros((count, count)), np.zeros((count, count))
    for pictures, has in zip(upright, present, strict=True):
        # With 16 levels of grey every sum is a whole number below 2^24: exact in float32 in whatever order it is made.
        levels = (pictures[has] >> 4).astype(np.float32)
        products = (levels @ levels.T).astype(np.float64)
        lengths = np.sqrt(np.maximum(np.diagonal(products), 1))
        total[np.ix_(has, has)] += products / np.outer(lengths, lengths)
        shared[np.ix_(has, has)] += 1
    alike = (shared > 0) & (total >= threshold * shared)
    np.fill_diagonal(alike, False)
    return alike


def first_of_look_alikes(alike: np.ndarray) -> list[int]:
    """The positions to keep: in order, each that looks like none kept before it.

    >>> first_of_look_alikes(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool))
    [0, 2]
    """
    kept: list[int] = []
    for position in range(len(alike)):
        if not alike[position, kept].any():
            kept.append(position)
    return kept


def choose_classes(paths: dict[str, Path]) -> dict[str, list[str]]:
    """The letters that are classes, by code point, each with the typefaces that are its samples.

    1. A letter's samples are the typefaces that map it to a glyph with ink. Of typefaces that draw it upright with
       every pixel equal, the first counts.
    2. A letter with fewer than `MIN_SAMPLES` samples is no class.
    3. In the order of code points, a letter goes if it looks like one that stayed (`look_alikes`). So no two classes
       are look-alikes, and each letter that went looks like a class.
    """
    claimed = {font: letters_of(font, path) for font, path in paths.items()}
    claims = Counter(letter for letters in claimed.values() for letter in letters)
    candidates = sorted(letter for letter, count in claims.items() if count >= MIN_SAMPLES)

    upright = np.zeros((len(paths), len(candidates), COMPARED_SIZE**2), np.uint8)
    present = np.zeros((len(paths), len(candidates)), bool)
    samples: list[dict[bytes, str]] = [{} for _ in candidates]
    for font_number, (font, path) in enumerate(paths.items()):
        pen, has = GlyphPainter(path, COMPARED_SIZE), set(claimed[font])
        for position, letter in enumerate(candidates):
            canvas = pen.draw(letter) if letter in has else None
            if canvas is not None and canvas.getbbox() is not None:
                samples[position].setdefault(hashlib.sha256(canvas.tobytes()).digest(), font)
                upright[font_number, position] = np.asarray(canvas.reduce(pen.oversampling)).ravel()
                present[font_number, position] = True

    enough = [position for position, fonts in enumerate(samples) if len(fonts) >= MIN_SAMPLES]
    kept = first_of_look_alikes(look_alikes(upright[:, enough], present[:, enough]))
    return {candidates[enough[place]]: list(samples[enough[place]].values()) for place in kept}


def render(
    paths: dict[str, Path], classes: dict[str, list[str]], *, size: int, seed: int, rotation: float, shift: float
) -> np.ndarray:
    """The pictures of all samples, class after class, white on black.

    Each is turned by up to `rotation` degrees and shifted by up to `shift` of its side both ways, uniformly, by a
    draw that depends on seed, character and typeface only.

    Shape:  N samples -> (N, size, size) of uint8
    """
    pens = {font: GlyphPainter(path, size) for font, path in paths.items()}
    pixels = np.empty((sum(map(len, classes.values())), size, size), np.uint8)
    samples = ((letter, font) for letter, fonts in classes.items() for font in fonts)
    for place, (letter, font) in enumerate(samples):
        canvas = pens[font].draw(letter)
        key = derive(seed, "glyphs", ord(letter), FONTS.index(font))
        turn, right, down = numpy_generator(key).uniform(-1, 1, 3)
        pixels[place] = pens[font].moved(canvas, turn * rotation, right * shift, down * shift)
    return pixels
