"""The source of the package as the house tests read it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "unseen"
MODULES = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
"""Path below src/unseen -> syntax tree."""


class Function(NamedTuple):
    """A function or method of the package."""

    path: str
    qualified_name: str
    node: ast.FunctionDef

    @property
    def arguments(self) -> list[ast.arg]:
        """All arguments but `self` and `cls`."""
        arguments = self.node.args
        stated = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        return [argument for argument in stated if argument.arg not in ("self", "cls")]

    @property
    def is_public(self) -> bool:
        """Whether neither the function nor a class around it begins with an underscore; special methods are public."""
        names = self.qualified_name.split(".")
        return all(not name.startswith("_") or name.endswith("__") for name in names)


def functions() -> Iterator[Function]:
    """Every function and method at the top level of a module or of a class."""

    def inside(path: str, body: list[ast.stmt], owner: str) -> Iterator[Function]:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                yield Function(path, owner + node.name, node)
            elif isinstance(node, ast.ClassDef):
                yield from inside(path, node.body, f"{owner}{node.name}.")

    for path, tree in MODULES.items():
        yield from inside(path, tree.body, "")
