"""`unseen list`: names, one-line descriptions and arguments, read from the source without importing it."""

import json
from typing import Annotated

import typer

from unseen.cli.options import Json
from unseen.core.errors import ConfigError
from unseen.core.registry import REGISTRIES, Registry, nearest


def list_(
    kind: Annotated[str | None, typer.Argument(help="What to list; everything when left out.")] = None,
    as_json: Json = False,
) -> None:
    """Print the components of a kind, or the kinds there are."""
    kinds = {registry.plural: registry for registry in REGISTRIES.values() if registry.names()}
    if kind is not None and kind not in kinds:
        singular = [registry.plural for registry in kinds.values() if registry.kind == kind]
        if not singular:
            raise ConfigError(
                f"there is no list of '{kind}'{nearest(kind, list(kinds))} (there are: {', '.join(kinds)})"
            )
        kind = singular[0]
    chosen = kinds if kind is None else {kind: kinds[kind]}
    if as_json:
        content = {plural: _as_json(registry) for plural, registry in chosen.items()}
        typer.echo(json.dumps(content if kind is None else content[kind], indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for plural, registry in chosen.items():
        table = Table(title=plural, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for heading in ("name", "what it is", "settings"):
            table.add_column(heading, overflow="fold")
        for name in registry.names():
            entry = registry.entry(name)
            settings = ", ".join(f"{each.name}={each.default}" for each in entry.arguments)
            table.add_row(name, entry.summary, settings)
        console.print(table)
        console.print()


def _as_json(registry: Registry) -> list[dict[str, object]]:
    entries = [registry.entry(name) for name in registry.names()]
    return [
        {
            "name": entry.name,
            "summary": entry.summary,
            "arguments": [{"name": each.name, "type": each.type, "default": each.default} for each in entry.arguments],
            "class": f"{entry.module}.{entry.attribute}",
        }
        for entry in entries
    ]
