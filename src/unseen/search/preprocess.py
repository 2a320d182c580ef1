"""From an image file to the input of an exported model, with Pillow and NumPy only; copied beside every model."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps


def preprocess(path: str | Path, description: dict[str, Any]) -> np.ndarray:
    """Return the RGB bytes (1, height, width, 3) of an image; `description` is the content of the model's JSON file."""
    steps = description["preprocessing"]
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    if steps["shorter_side"] is not None:
        shortest = min(image.size)
        width, height = (int(steps["shorter_side"] * side / shortest) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    if steps["centre_crop"] is not None:
        size = steps["centre_crop"]
        left, top = (round((side - size) / 2) for side in image.size)
        image = image.crop((left, top, left + size, top + size))
    if steps["stretch_to"] is not None:
        image = image.resize((steps["stretch_to"], steps["stretch_to"]), Image.Resampling.BILINEAR)
    return np.asarray(image)[None]
