"""`unseen show`: the complete settings of a run, without running it."""

import json

import typer

from unseen.cli import options
from unseen.core.config import Record


@options.takes_run_settings
def show(settings: Record, as_json: options.Json = False) -> None:
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
        _print_json({"name": prepared.recipe.name, "recipe": recipe, "split": prepared.split.counts()})
    else:
        typer.echo(f"# run {prepared.recipe.name}: {prepared.split.describe()}")
        _print_yaml(recipe)


def _show_protocol(name: str, as_json: bool) -> None:
    from dataclasses import asdict

    from unseen.runs.protocols import load_protocol

    protocol = asdict(load_protocol(name))
    if as_json:
        _print_json(protocol)
    else:
        _print_yaml(protocol | {"notes": list(protocol["notes"])})


def _print_json(content: Record) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def _print_yaml(content: Record) -> None:
    import yaml

    typer.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110).rstrip())
