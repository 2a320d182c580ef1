"""From an image file to the input of an exported model, with Pillow and NumPy only; copied beside every model."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps


def preprocess(path: str | Path, description: dict[str, dict[str, int | None]]) -> np.ndarray:
    """Return the RGB bytes (1, height, width, 3) of an image; `description` is the content of the model's JSON file."""
    steps = description["preprocessing"]
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    shorter_side, crop, stretch_to = (steps[name] for name in ("shorter_side", "centre_crop", "stretch_to"))
    if shorter_side is not None:
        shortest = min(image.size)
        width, height = (int(shorter_side * side / shortest) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    if crop is not None:
        left, top = (round((side - crop) / 2) for side in image.size)
        image = image.crop((left, top, left + crop, top + crop))
    if stretch_to is not None:
        image = image.resize((stretch_to, stretch_to), Image.Resampling.BILINEAR)
    return np.asarray(image)[None]
