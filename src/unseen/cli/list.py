"""`unseen list`: names, one-line summaries and settings, read from the source without importing it."""

import json
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from unseen.cli.options import Json
from unseen.core.config import Record, read_yaml
from unseen.core.errors import ConfigError
from unseen.core.registry import REGISTRIES, Registry, nearest
from unseen.core.registry.entries import REQUIRED
from unseen.core.registry.pml_entries import PREFIX

WIDE = 120
"""Columns of a terminal from which on settings stand beside the summaries, not below them."""


def list_components(
    kind: Annotated[
        str | None, typer.Argument(help="A kind, such as losses; all kinds with their counts if none.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the components of a kind, or the kinds with the number of their components."""
    kinds: dict[str, Callable[[], list[Record]]] = {
        registry.plural: partial(_components, registry) for registry in REGISTRIES.values()
    }
    kinds |= {"backbones": _backbones, "models": _models, "recipes": _recipes, "studies": _plans}
    plurals = {registry.kind: registry.plural for registry in REGISTRIES.values()}
    plurals |= {"model": "models", "recipe": "recipes", "study": "studies"}
    if kind is None:
        entries = {plural: read() for plural, read in kinds.items()}
        if as_json:
            _print_json(entries)
        else:
            _print_kinds(entries)
        return
    kind = plurals.get(kind, kind)
    if kind not in kinds:
        raise ConfigError(f"there is no list of '{kind}'{nearest(kind, list(kinds))} (there are: {', '.join(kinds)})")
    listed = kinds[kind]()
    if as_json:
        _print_json(listed)
    else:
        _print_components(kind, listed)


def _print_json(content: object) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def _print_kinds(entries: dict[str, list[Record]]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("kind", no_wrap=True)
    table.add_column("count", justify="right")
    table.add_column("names", ratio=1)
    for kind, listed in entries.items():
        table.add_row(kind, str(len(listed)), _names(listed))
    screen = Console(highlight=False)
    screen.print(table)
    screen.print("\nunseen list KIND prints their summaries and settings.")


def _names(listed: list[Record]) -> str:
    own = [entry["name"] for entry in listed if not entry["name"].startswith(PREFIX)]
    others = len(listed) - len(own)
    return ", ".join(own) + (f", and {others} of pytorch-metric-learning ({PREFIX}*)" if others else "")


def _print_components(kind: str, listed: list[Record]) -> None:
    screen = Console(highlight=False)
    rows = [(entry["name"], escape(entry["summary"]), escape(_settings(entry))) for entry in listed]
    headings = ["facts" if "facts" in entry else "settings" for entry in listed]
    if screen.width < WIDE:
        for (name, summary, settings), heading in zip(rows, headings, strict=True):
            screen.print(name, style="bold", markup=False)
            screen.print(Padding(summary, (0, 0, 0, 4)))
            if settings:
                screen.print(Padding(f"{heading}: {settings}", (0, 0, 0, 4)), style="dim")
        return
    table = Table(title=kind, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is", ratio=3)
    table.add_column(" or ".join(dict.fromkeys(headings)), ratio=2)
    for row in rows:
        table.add_row(*row)
    screen.print(table)


def _settings(entry: Record) -> str:
    stated = ", ".join(
        argument["name"] if argument["default"] == REQUIRED else f"{argument['name']}={argument['default']}"
        for argument in entry["arguments"]
    )
    return stated or ", ".join(f"{name} {_short(value)}" for name, value in entry.get("facts", {}).items())


def _short(value: object) -> str:
    return " ".join(f"{number:.3g}" for number in value) if isinstance(value, list) else str(value)


def _components(registry: Registry) -> list[Record]:
    entries = [registry.entry(name) for name in [*registry.names(), *registry.foreign_names()]]
    return [
        {
            "name": entry.name,
            "summary": entry.summary,
            "arguments": [
                {"name": argument.name, "type": argument.type, "default": argument.default}
                for argument in entry.arguments
            ],
            "class": f"{entry.module}.{entry.attribute}",
        }
        for entry in entries
    ]


# The files below are read directly: importing their packages would import torch.
_PACKAGE = Path(str(files("unseen")))
_BACKBONE_FACTS = _PACKAGE / "models" / "pretrained" / "backbone_facts.yaml"


def _backbones() -> list[Record]:
    """The registered backbones, then the names of those whose weights come as packages."""
    table = read_yaml(_BACKBONE_FACTS)
    packaged = [
        {
            "name": name,
            "summary": entry["what"] + ".",
            "arguments": [],
            "facts": {
                "width": table["models"][entry["architecture"]]["width"],
                "installed": "yes" if find_spec(entry["package"]) else f"no ({entry['install']})",
                "licence": entry["licence"],
                "package": f"{entry['package']} {entry['version']}",
                "pretrained on": entry["pretraining"],
                "architecture": f"timm's {entry['architecture']}",
            },
        }
        for name, entry in table["packaged"].items()
    ]
    return [*_components(REGISTRIES["backbone"]), *packaged]


def _models() -> list[Record]:
    """The backbones of the papers; every other timm model can be named too."""
    models = read_yaml(_BACKBONE_FACTS)["models"]
    return [
        {
            "name": name,
            "summary": entry["what"] + ".",
            "arguments": [],
            "facts": {"width": entry["width"], **entry["normalisation"], "batch norm": entry["batch_norm"]},
        }
        for name, entry in sorted(models.items())
    ]


def _recipes() -> list[Record]:
    return [_titled(name, recipe) for name, recipe in sorted(read_yaml(_PACKAGE / "runs" / "recipes.yaml").items())]


def _plans() -> list[Record]:
    return [_titled(path.stem, read_yaml(path)) for path in sorted((_PACKAGE / "studies" / "plans").glob("*.yaml"))]


def _titled(name: str, content: Record) -> Record:
    return {"name": name, "summary": content["title"] + ".", "arguments": []}
