"""Catalogues and splits from their records."""

import logging
from collections.abc import Mapping

from unseen.core import registry
from unseen.core.config import build
from unseen.data.catalogue import Catalogue
from unseen.data.splits import Split

_log = logging.getLogger("unseen")


def load_catalogue(record: str | Mapping[str, object]) -> Catalogue:
    """Load the data set that a record describes: `"folder=my/birds"` or `{"name": "folder", "path": "my/birds"}`.

    The catalogue's notes (counts that differ from the published ones, classes left out) are logged as warnings.
    """
    catalogue: Catalogue = build(registry.data, record)
    for note in catalogue.notes:
        _log.warning("note on %s: %s", catalogue.name, note)
    return catalogue


def split_catalogue(catalogue: Catalogue, record: str | Mapping[str, object]) -> Split:
    """Split a catalogue as a record describes: `"fraction:train=0.5"` or `{"name": "given"}`."""
    split: Split = build(registry.split, record)(catalogue)
    return split
