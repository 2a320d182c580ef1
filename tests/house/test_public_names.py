"""What is public is written down: a name that comes or goes is an edit of api_surface.json in the same change."""

import ast
import json
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "unseen"
SURFACE = Path(__file__).parents[1] / "api_surface.json"


def exported(path: Path) -> list[str]:
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names += [alias.asname for alias in node.names if alias.asname]
    return sorted(names)


def surface() -> dict[str, list[str]]:
    import unseen

    packages = {f"unseen.{path.parent.name}": exported(path) for path in sorted(SOURCE.glob("*/__init__.py"))}
    return {"unseen": sorted(unseen.__all__), **{name: names for name, names in packages.items() if names}}


def test_the_public_names_are_those_written_down():
    assert surface() == json.loads(SURFACE.read_text()), "tests/api_surface.json must say what is public"


def test_the_front_door_is_one_screen():
    import unseen

    assert len(unseen.__all__) <= 40


def test_every_public_name_of_the_front_door_is_there():
    import unseen

    for name in unseen.__all__:
        assert getattr(unseen, name) is not None
