"""Entries: name, summary and settings of a component, read from its source without importing it."""

import ast
from dataclasses import dataclass
from pathlib import Path

REQUIRED = "required"


@dataclass(frozen=True)
class Argument:
    """One setting of a component, as its signature states it."""

    name: str
    type: str
    default: str


@dataclass(frozen=True)
class Entry:
    """What is known of a component without importing it."""

    name: str
    summary: str
    arguments: tuple[Argument, ...]
    module: str
    attribute: str


def read_entries(path: Path, module: str, kind: str) -> dict[str, Entry]:
    """The components of one kind that a file registers, by name."""
    entries: dict[str, Entry] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            for decorator in node.decorator_list:
                name = _registered_name(decorator, kind)
                if name is not None:
                    summary = (ast.get_docstring(node) or "").split("\n")[0]
                    entries[name] = Entry(name, summary, arguments_of(node), module, node.name)
    return entries


def arguments_of(node: ast.ClassDef | ast.FunctionDef) -> tuple[Argument, ...]:
    """The settings in the signature of a function, or of the constructor that a class defines itself."""
    if isinstance(node, ast.ClassDef):
        init = constructor_of(node)
        if init is None:
            return ()
        signature = init.args
        ordinary = signature.args[1:]
    else:
        signature = node.args
        ordinary = signature.args
    missing: list[ast.expr | None] = [None] * (len(ordinary) - len(signature.defaults))
    pairs = [*zip(ordinary, [*missing, *signature.defaults], strict=True)]
    pairs += [*zip(signature.kwonlyargs, signature.kw_defaults, strict=True)]
    return tuple(
        Argument(
            argument.arg,
            ast.unparse(argument.annotation) if argument.annotation else "",
            REQUIRED if default is None else ast.unparse(default),
        )
        for argument, default in pairs
    )


def constructor_of(node: ast.ClassDef) -> ast.FunctionDef | None:
    """The constructor that a class defines itself, if any."""
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)


def _registered_name(decorator: ast.expr, kind: str) -> str | None:
    match decorator:
        case ast.Call(func=ast.Name(id=called), args=[ast.Constant(value=name)]) if called == kind:
            return str(name)
    return None
