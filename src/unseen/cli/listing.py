"""`unseen list`: names, one-line descriptions and arguments, read from the source without importing it."""

import json
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from unseen.cli.options import Json
from unseen.core.config import read_yaml
from unseen.core.errors import ConfigError
from unseen.core.registry import REGISTRIES, Registry, nearest

Listed = dict[str, Any]


def list_(
    kind: Annotated[str | None, typer.Argument(help="What to list; everything when left out.")] = None,
    as_json: Json = False,
) -> None:
    """Print the components of a kind, or of all kinds."""
    kinds: dict[str, Callable[[], list[Listed]]] = {
        registry.plural: partial(_components, registry) for registry in REGISTRIES.values()
    }
    kinds["models"] = _models
    kinds["recipes"] = _recipes
    kinds["studies"] = _plans
    singular = {registry.kind: registry.plural for registry in REGISTRIES.values()} | {
        "model": "models",
        "recipe": "recipes",
        "study": "studies",
    }
    kind = singular.get(kind or "", kind)
    if kind is not None and kind not in kinds:
        raise ConfigError(f"there is no list of '{kind}'{nearest(kind, list(kinds))} (there are: {', '.join(kinds)})")
    chosen = {plural: entries() for plural, entries in kinds.items() if kind in (None, plural)}
    if as_json:
        typer.echo(json.dumps(chosen if kind is None else chosen[kind], indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for plural, entries in chosen.items():
        table = Table(title=plural, title_justify="left", title_style="bold", box=None, pad_edge=False)
        table.add_column("name", no_wrap=True)
        table.add_column("what it is", ratio=3)
        table.add_column("facts" if plural == "models" else "settings", ratio=2)
        for entry in entries:
            settings = ", ".join(f"{each['name']}={each['default']}" for each in entry["arguments"])
            table.add_row(entry["name"], entry["summary"], settings or _in_words(entry.get("facts", {})))
        console.print(table)
        console.print()


def _components(registry: Registry) -> list[Listed]:
    entries = [registry.entry(name) for name in [*registry.names(), *registry.foreign_names()]]
    return [
        {
            "name": entry.name,
            "summary": entry.summary,
            "arguments": [{"name": each.name, "type": each.type, "default": each.default} for each in entry.arguments],
            "class": f"{entry.module}.{entry.attribute}",
        }
        for entry in entries
    ]


def _models() -> list[Listed]:
    """The backbones of the papers; all others of timm can be named too."""
    models = read_yaml(Path(str(files("unseen"))) / "models" / "backbone_facts.yaml")["models"]
    return [
        {
            "name": name,
            "summary": entry["what"] + ".",
            "arguments": [],
            "facts": {"width": entry["width"], **entry["normalisation"], "batch norm": entry["batch_norm"]},
        }
        for name, entry in sorted(models.items())
    ]


def _in_words(facts: Listed) -> str:
    def short(value: Any) -> str:
        return " ".join(f"{each:.3g}" for each in value) if isinstance(value, list) else str(value)

    return ", ".join(f"{name} {short(value)}" for name, value in facts.items())


def _recipes() -> list[Listed]:
    # Read where they lie, as plans are.
    recipes = read_yaml(Path(str(files("unseen"))) / "runs" / "recipes.yaml")
    return [{"name": name, "summary": each["title"] + ".", "arguments": []} for name, each in sorted(recipes.items())]


def _plans() -> list[Listed]:
    # Read where they lie: importing the studies package would import torch.
    folder = Path(str(files("unseen"))) / "studies" / "plans"
    return [
        {"name": path.stem, "summary": read_yaml(path)["title"] + ".", "arguments": []}
        for path in sorted(folder.glob("*.yaml"))
    ]
