"""Folders follow the data: a module imports only from core and from folders to the left of its own."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "unseen"
ORDER = [
    {"core"},
    {"data"},
    {"samplers"},
    {"models"},
    {"pairs"},
    {"losses", "miners"},  # which do not import each other
    {"robust"},
    {"methods"},
    {"training"},
    {"evaluation"},
    {"shifts"},
    {"runs"},
    {"studies"},
    {"figures"},
    {"analyses"},
    {"search"},
    {"reports"},
    {"cli"},
]
PLACE = {folder: place for place, folders in enumerate(ORDER) for folder in folders}


def imports_of(path: Path) -> set[str]:
    """Modules of ours that a file imports, anywhere in it but under TYPE_CHECKING."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                # `from package import module` imports the module; `from module import name` the module it is in.
                inner = f"{node.module}.{alias.name}"
                found.add(inner if is_module(inner) else node.module or "")
    return {name for name in found if name.startswith("unseen.")}


def is_module(name: str) -> bool:
    path = SOURCE.parent / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def modules() -> dict[str, Path]:
    named = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


@pytest.mark.parametrize("folder", sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()))
def test_a_folder_imports_only_leftwards(folder):
    assert folder in PLACE, f"'{folder}' has no place in the order"
    for name, path in modules().items():
        if name.split(".")[1:2] != [folder]:
            continue
        for imported in imports_of(path):
            target = imported.split(".")[1]
            if target in PLACE:
                is_left = PLACE[target] < PLACE[folder] or target == folder
                assert is_left, f"{name} imports {imported}, which does not lie to its left"


def test_no_module_imports_itself_through_others():
    named = modules()
    graph = {
        name: {each for each in imports_of(path) if each in named} for name, path in named.items() if name != "unseen"
    }
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"a circle of imports: {' -> '.join([*above, name])}"
        if name not in done:
            for imported in sorted(graph.get(name, ())):
                visit(imported, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())
