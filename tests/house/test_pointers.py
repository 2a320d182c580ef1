"""Nothing points to documents that are not in the repository."""

import re

from tests.house.source import ROOT

FOLDERS = ("src", "tests", "docs", "bench", "examples", "configs")
FILES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md", ".yaml", ".html", ".css", ".json") and "__pycache__" not in path.parts
)
FILES += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "pyproject.toml")]
OUTSIDE = re.compile(r"\b(?:" + "SP" + "EC|PROM" + "ISES|DES" + "IGN" + r")\b|\bSTYLE(?=\.md| section| \d)")


def test_no_file_points_to_a_document_outside_of_the_repository():
    pointing = {}
    for path in FILES:
        found = OUTSIDE.findall(path.read_text(encoding="utf-8"))
        if found:
            pointing[str(path.relative_to(ROOT))] = found
    assert pointing == {}
