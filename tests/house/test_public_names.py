"""The public names are written down: a name that comes or goes is an edit of api_surface.json in the same change."""

import ast
import importlib
import json

from tests.house.source import MODULES, ROOT
from unseen.core.registry import REGISTRIES

SURFACE = ROOT / "tests" / "api_surface.json"


def exported(path: str, package: str) -> list[str]:
    """`__all__` of a package, or the names that it re-exports one by one (`from x import y as y`)."""
    module = importlib.import_module(package)
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    imports = [node for node in MODULES[path].body if isinstance(node, ast.ImportFrom)]
    return sorted(alias.asname for node in imports for alias in node.names if alias.asname)


def surface() -> dict[str, list[str]]:
    """Package -> its public names, and registry -> the names of its components."""
    packages = {}
    for path in MODULES:
        if path.endswith("__init__.py"):
            package = ".".join(["unseen", *path.split("/")[:-1]])
            packages[package] = exported(path, package)
    registries = {f"registry of {registry.plural}": registry.names() for registry in REGISTRIES.values()}
    return {name: names for name, names in {**packages, **registries}.items() if names}


def test_the_public_names_are_those_written_down():
    assert surface() == json.loads(SURFACE.read_text()), "tests/api_surface.json must say what is public"


def test_every_public_name_exists():
    for package, names in surface().items():
        if package.startswith("unseen"):
            module = importlib.import_module(package)
            assert [name for name in names if not hasattr(module, name)] == [], package


def test_the_front_door_is_one_screen():
    import unseen

    assert len(unseen.__all__) <= 40


def test_every_public_name_of_the_front_door_is_there():
    import unseen

    for name in unseen.__all__:
        assert getattr(unseen, name) is not None
