"""A folder of the source holds as many modules as one looks through at a glance."""

from collections import Counter

from tests.house.source import MODULES

MOST_MODULES = 15

ONE_IDEA_A_FILE = {
    "losses": "one loss per file",
    "cli": "one command per file",
}
"""Folders that may hold more, with the reason."""


def test_no_folder_holds_more_than_fifteen_modules():
    counts = Counter(path.rpartition("/")[0] for path in MODULES if not path.endswith("__init__.py"))
    large = {folder for folder, count in counts.items() if count > MOST_MODULES}
    assert large == ONE_IDEA_A_FILE.keys()
