"""Lets these tests use the slow loops of tests/losses, whichever tests run."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "losses"))
