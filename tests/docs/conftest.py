"""Lets these tests use the scripts of docs, whichever tests run."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
