"""`unseen show`: a run as it would happen, with every default written out."""

import json
from typing import Any

import typer

from unseen.cli import options


@options.takes_run_settings
def show(settings: dict[str, Any], as_json: options.Json = False) -> None:
    """Print the complete settings of a run (a YAML file, a run's folder, or options) without running it.

    A protocol without data is printed as the paper states it.
    """
    from unseen.runs import prepare

    if settings.get("protocol") is not None and settings.get("data") is None:
        _show_protocol(settings["protocol"], as_json)
        return

    prepared = prepare(settings)
    recipe = prepared.recipe.to_mapping()
    if as_json:
        content = {"name": prepared.recipe.name, "recipe": recipe, "split": prepared.split.counts()}
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    import yaml

    typer.echo(f"# run {prepared.recipe.name}: {prepared.split.describe()}")
    typer.echo(yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True).rstrip())


def _show_protocol(name: str, as_json: bool) -> None:
    from dataclasses import asdict

    from unseen.runs.protocols import load_protocol

    protocol = asdict(load_protocol(name))
    if as_json:
        typer.echo(json.dumps(protocol, indent=2, ensure_ascii=False))
        return
    import yaml

    protocol["notes"] = list(protocol["notes"])
    typer.echo(yaml.safe_dump(protocol, sort_keys=False, allow_unicode=True, width=110).rstrip())
