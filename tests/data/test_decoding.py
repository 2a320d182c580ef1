"""Decoding: whole and RGB, or refused with path and reason."""

import io
import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image, ImageFile

from unseen.core.errors import DataError
from unseen.data import decoding
from unseen.data.decoding import EncodedImage, decode


def picture(height=37, width=53):
    """A smooth picture whose four corners differ, so that a rotation shows."""
    rows, columns = np.mgrid[0:height, 0:width]
    return np.stack([rows * 255 // height, columns * 255 // width, (rows + columns) * 2 % 256], 2).astype(np.uint8)


def encoded(image, form, **settings):
    buffer = io.BytesIO()
    image.save(buffer, form, **settings)
    return buffer.getvalue()


def reason(path):
    with pytest.raises(DataError) as caught:
        decode(path)
    assert caught.value.message.startswith(f"cannot decode {path}: ")
    assert "\n" not in caught.value.message
    return caught.value.message.removeprefix(f"cannot decode {path}: ")


def png_with_header(width, height):
    """A tiny PNG that says it is large, with pixel data that would be large too."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize("form", ["PNG", "BMP", "WEBP"])
def test_a_lossless_picture_comes_back_exactly(tmp_path, form):
    path = tmp_path / "picture.any"
    path.write_bytes(encoded(Image.fromarray(picture()), form, **({"lossless": True} if form == "WEBP" else {})))
    decoded = decode(path)
    assert decoded.mode == "RGB"
    assert np.array_equal(np.asarray(decoded), picture())


@pytest.mark.parametrize("form", ["JPEG", "PNG", "BMP", "WEBP"])
def test_a_cut_file_is_named_or_decoded_to_the_same_pixels(tmp_path, form):
    noise = np.random.default_rng(0).integers(0, 256, (37, 53, 3), np.uint8)
    content = encoded(Image.fromarray(noise), form)
    path = tmp_path / "cut.jpg"
    path.write_bytes(content)
    whole = np.asarray(decode(path))
    refused = 0
    cuts = np.linspace(0, len(content) - 1, 41).astype(int)
    for cut in cuts:
        path.write_bytes(content[:cut])
        try:
            assert np.array_equal(np.asarray(decode(path)), whole), cut
        except DataError as problem:
            assert str(path) in problem.message
            refused += 1
    # The very last bytes (a closing marker, a checksum, padding) may be missing without loss.
    assert refused >= len(cuts) - 2


def test_truncated_images_are_never_filled_up():
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False
    assert Image.MAX_IMAGE_PIXELS is not None


def test_an_empty_file_a_folder_and_a_missing_file_are_named(tmp_path):
    empty = tmp_path / "empty.jpg"
    empty.touch()
    assert reason(empty) == "the file is empty"
    assert reason(tmp_path) == "it is not a file"
    assert reason(tmp_path / "none.jpg") == "No such file or directory"


def test_text_and_other_formats_are_refused_whatever_their_suffix(tmp_path):
    path = tmp_path / "text.jpg"
    path.write_text("not an image\n" * 50)
    assert "not a JPEG, PNG, WEBP or BMP" in reason(path)
    for form in ("TIFF", "GIF", "PPM", "ICO"):
        path.write_bytes(encoded(Image.fromarray(picture()), form))
        assert "not a JPEG, PNG, WEBP or BMP" in reason(path)


def test_cmyk_becomes_the_rgb_it_shows(tmp_path):
    path = tmp_path / "cmyk.jpg"
    original = Image.new("RGB", (32, 32), (200, 40, 90))
    path.write_bytes(encoded(original.convert("CMYK"), "JPEG", quality=100))
    decoded = decode(path)
    assert decoded.mode == "RGB"
    assert np.abs(np.asarray(decoded).astype(int) - np.asarray(original)).max() <= 3  # JPEG rounding


def test_transparency_is_laid_on_white(tmp_path):
    pixels = np.zeros((2, 3, 4), np.uint8)
    pixels[:, 0] = (10, 20, 30, 255)
    pixels[:, 1] = (10, 20, 30, 0)
    pixels[:, 2] = (0, 0, 0, 51)  # a fifth of black on white: 204
    path = tmp_path / "alpha.png"
    path.write_bytes(encoded(Image.fromarray(pixels, "RGBA"), "PNG"))
    decoded = np.asarray(decode(path))
    assert decoded[0].tolist() == [[10, 20, 30], [255, 255, 255], [204, 204, 204]]


def test_a_palette_with_a_transparent_colour_is_laid_on_white(tmp_path):
    image = Image.new("P", (4, 4), 1)
    image.putpalette([1, 2, 3, 40, 50, 60] + [0] * 762)
    image.putpixel((0, 0), 0)
    path = tmp_path / "palette.png"
    path.write_bytes(encoded(image, "PNG", transparency=0))
    decoded = np.asarray(decode(path))
    assert decoded[0, 0].tolist() == [255, 255, 255]
    assert decoded[3, 3].tolist() == [40, 50, 60]
    path.write_bytes(encoded(image, "PNG", transparency=bytes([255, 0])))
    assert np.asarray(decode(path))[3, 3].tolist() == [255, 255, 255]
    path.write_bytes(encoded(image, "PNG"))
    assert np.asarray(decode(path))[0, 0].tolist() == [1, 2, 3]


def test_grey_with_alpha_is_laid_on_white(tmp_path):
    path = tmp_path / "grey.png"
    path.write_bytes(encoded(Image.new("LA", (2, 2), (0, 0)), "PNG"))
    assert np.asarray(decode(path)).min() == 255


def test_sixteen_bit_grey_is_scaled_and_not_cut_off(tmp_path):
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    path = tmp_path / "deep.png"
    path.write_bytes(encoded(Image.fromarray(values), "PNG"))
    expected = np.rint(values / 257).astype(np.uint8)
    assert np.array_equal(np.asarray(decode(path))[..., 0], expected)


def test_grey_one_bit_pictures_become_rgb(tmp_path):
    path = tmp_path / "bits.png"
    path.write_bytes(encoded(Image.fromarray(picture()[..., 0] > 100), "PNG"))
    assert np.array_equal(np.asarray(decode(path))[..., 2], (picture()[..., 0] > 100) * np.uint8(255))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_exif_orientation_is_applied(tmp_path, orientation):
    upright = picture()
    undo = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, 1),
        7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
        8: lambda a: np.rot90(a, -1),
    }
    stored = np.ascontiguousarray(undo[orientation](upright))
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "turned.png"
    path.write_bytes(encoded(Image.fromarray(stored), "PNG", exif=exif))
    assert np.array_equal(np.asarray(decode(path)), upright)


@pytest.mark.parametrize("junk", [b"Exif\0\0junk", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0"])
def test_exif_that_cannot_be_read_is_ignored(tmp_path, junk):
    path = tmp_path / "junk.jpg"
    clean = encoded(Image.fromarray(picture()), "JPEG")
    path.write_bytes(clean)
    expected = np.asarray(decode(path))
    path.write_bytes(clean[:2] + b"\xff\xe1" + struct.pack(">H", len(junk) + 2) + junk + clean[2:])
    assert np.array_equal(np.asarray(decode(path)), expected)


@pytest.mark.parametrize("form", ["WEBP", "PNG"])
def test_an_animation_gives_its_first_frame(tmp_path, form):
    frames = [Image.fromarray(picture()), Image.new("RGB", (53, 37), "red"), Image.new("RGB", (53, 37), "blue")]
    path = tmp_path / "moving.png"
    settings = {"lossless": True} if form == "WEBP" else {}
    path.write_bytes(encoded(frames[0], form, save_all=True, append_images=frames[1:], **settings))
    assert np.array_equal(np.asarray(decode(path)), picture())


def test_a_stereo_photograph_of_two_jpegs_gives_the_first(tmp_path):
    frames = [Image.new("RGB", (32, 16), "green"), Image.new("RGB", (32, 16), "red")]
    path = tmp_path / "phone.jpg"
    path.write_bytes(encoded(frames[0], "MPO", save_all=True, append_images=frames[1:]))
    red, green, _ = np.asarray(decode(path))[8, 8]
    assert green > 100 > red


@pytest.mark.parametrize("side", [7_072, 9_000, 12_000, 40_000])
def test_a_bomb_is_refused_before_it_is_decoded(tmp_path, side, monkeypatch):
    # 9,000: Pillow alone says nothing; 12,000: it warns; 40,000: it refuses.
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("the bomb was decoded"))
    path = tmp_path / "bomb.png"
    path.write_bytes(png_with_header(side, side))
    assert "more than 50 megapixels" in reason(path)


def test_a_picture_within_the_limit_is_decoded_and_above_it_is_not(tmp_path, monkeypatch):
    path = tmp_path / "picture.png"
    path.write_bytes(encoded(Image.fromarray(picture()), "PNG"))
    monkeypatch.setattr(decoding, "LARGEST_IMAGE", 37 * 53)
    decode(path)
    monkeypatch.setattr(decoding, "LARGEST_IMAGE", 37 * 53 - 1)
    assert "53 x 37 pixels are more than" in reason(path)


def test_a_large_file_is_refused_before_it_is_opened(tmp_path):
    path = tmp_path / "large.bmp"
    with open(path, "wb") as file:
        file.truncate(decoding.LARGEST_FILE + 1)  # a hole, not 64 MB
    assert "the file has 64,000,001 bytes" in reason(path)


def test_a_large_text_chunk_is_refused(tmp_path):
    content = zlib.compress(bytes(50_000_000))
    chunk = b"zTXtnote\0\0" + content
    whole = encoded(Image.fromarray(picture()), "PNG")
    chunk = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    path = tmp_path / "text.png"
    path.write_bytes(whole[:33] + chunk + whole[33:])
    assert "too large" in reason(path)


def test_a_large_jpeg_is_decoded_at_half_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "HALVED_ABOVE", 64 * 96 - 1)
    path = tmp_path / "large.jpg"
    path.write_bytes(encoded(Image.fromarray(picture(64, 96)), "JPEG", quality=95))
    assert decode(path).size == (48, 32)
    path.write_bytes(encoded(Image.fromarray(picture(64, 95)), "JPEG", quality=95))
    assert decode(path).size == (95, 64)


def test_three_flipped_bytes_decode_or_are_named(tmp_path):
    content = encoded(Image.fromarray(picture()), "JPEG")
    path = tmp_path / "flipped.jpg"
    generator = np.random.default_rng(0)
    for _ in range(100):
        flipped = bytearray(content)
        for position in generator.integers(len(content), size=3):
            flipped[position] ^= 1 << generator.integers(8)
        path.write_bytes(flipped)
        try:
            assert decode(path).mode == "RGB"
        except DataError as problem:
            assert str(path) in problem.message


def test_decoding_in_threads_leaves_the_warnings_of_the_others_alone(tmp_path):
    # EXIF with a value far beyond the end of the file, of which Pillow warns.
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x1a\x01\x05\0\xff\0\0\0\xff\xff\0\0\0\0\0\0"
    path = tmp_path / "exif.jpg"
    path.write_bytes(encoded(Image.fromarray(picture()), "JPEG", exif=exif))
    with pytest.warns(UserWarning, match="Skipping tag"), Image.open(path) as image:
        image.getexif()
    filters, heard, said = list(warnings.filters), [], 0
    with ThreadPoolExecutor(3) as pool:
        decoded = [pool.submit(decode, path) for _ in range(100)]
        while not all(future.done() for future in decoded):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warnings.warn("of the caller", stacklevel=1)
            said += 1
            heard += [str(warning.message) for warning in caught]
    assert {np.asarray(future.result()).tobytes() for future in decoded} == {np.asarray(decode(path)).tobytes()}
    assert heard.count("of the caller") == said
    assert [entry for entry in warnings.filters if entry not in filters] in ([], [decoding._PILLOW])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_size_is_known_before_decoding_and_is_that_of_the_upright_image(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "turned"
    for form in ("JPEG", "PNG", "WEBP"):
        path.write_bytes(encoded(Image.fromarray(picture(40, 90)), form, exif=exif))
        size = EncodedImage(path).size
        assert size == decode(path).size == ((40, 90) if orientation >= 5 else (90, 40))
        if form == "JPEG":
            assert EncodedImage(path).decode(4).image.size == (-(-size[0] // 4), -(-size[1] // 4))


@pytest.mark.parametrize(("reduction", "factor"), [(1, 1), (2, 2), (3, 2), (4, 4), (7, 4), (8, 8), (100, 8)])
@pytest.mark.parametrize("size", [(64, 96), (101, 103), (9, 300)])
def test_a_jpeg_is_reduced_by_a_power_of_two_and_other_formats_are_not(tmp_path, reduction, factor, size):
    path = tmp_path / "picture"
    for mode in ("RGB", "L", "CMYK"):
        path.write_bytes(encoded(Image.fromarray(picture(*size)).convert(mode), "JPEG", quality=95))
        image, applied, _, _ = EncodedImage(path).decode(reduction)
        assert applied == factor
        assert image.mode == "RGB"
        assert image.size == (-(-size[1] // factor), -(-size[0] // factor))
    for form in ("PNG", "BMP", "WEBP"):
        path.write_bytes(encoded(Image.fromarray(picture(*size)), form))
        image, applied, _, _ = EncodedImage(path).decode(reduction)
        assert (applied, image.size) == (1, (size[1], size[0]))


@pytest.mark.parametrize("settings", [{}, {"progressive": True}])
def test_a_cut_jpeg_is_refused_at_every_reduction(tmp_path, settings):
    noise = np.random.default_rng(0).integers(0, 256, (80, 96, 3), np.uint8)
    content = encoded(Image.fromarray(noise), "JPEG", **settings)
    path = tmp_path / "cut.jpg"
    for reduction in (2, 4, 8):
        path.write_bytes(content)
        whole = np.asarray(EncodedImage(path).decode(reduction).image)
        refused = 0
        for cut in np.linspace(0, len(content) - 1, 21).astype(int):
            path.write_bytes(content[:cut])
            try:
                assert np.array_equal(np.asarray(EncodedImage(path).decode(reduction).image), whole), cut
            except DataError as problem:
                assert str(path) in problem.message
                refused += 1
        assert refused >= 20  # the closing marker may be missing without loss
