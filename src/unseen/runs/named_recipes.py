"""Named recipes: published combinations of loss, miner and method, with what the papers change for a data set."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from unseen.core.config import Record, as_record, read_yaml
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest


@dataclass(frozen=True, kw_only=True)
class NamedRecipe:
    """Settings by name; `by_data` holds what differs for a data set."""

    name: str
    title: str
    reference: str
    settings: Record
    by_data: dict[str, Record]

    def settings_for(self, data: str) -> Record:
        """The settings of a run on a data set."""
        return _over(self.settings, self.by_data.get(data, {}))

    def under(self, stated: Mapping[str, Any], data: str) -> Record:
        """What was stated, over this recipe; a stated part of the recipe's own name changes its settings only.

        Raises:     ConfigError for another loss or method than the recipe is made of
        """
        settings = self.settings_for(data)
        merged = {**settings, **stated}
        for kind in ("loss", "method"):
            if kind in settings and kind in stated:
                record = {"name": "none"} if stated[kind] is None else as_record(stated[kind], kind)
                if record["name"] != settings[kind]["name"]:
                    raise ConfigError(
                        f"recipe '{self.name}' is made of {kind} '{settings[kind]['name']}'",
                        got=record["name"],
                        hint=f"Use no --recipe, or no --{kind}.",
                    )
                merged[kind] = _over(settings[kind], record)
        return merged


def named_recipes() -> dict[str, NamedRecipe]:
    """All named recipes."""
    content = read_yaml(Path(str(files("unseen") / "runs" / "recipes.yaml")))
    return {name: NamedRecipe(name=name, **({"by_data": {}} | each)) for name, each in sorted(content.items())}


def load_recipe(name: str) -> NamedRecipe:
    """The recipe of a name.

    Raises:     ConfigError for an unknown name
    """
    known = named_recipes()
    if name not in known:
        close = nearest(name, list(known))
        raise ConfigError(f"unknown recipe '{name}'{close} ({len(known)} known: unseen list recipes)")
    return known[name]


def _over(below: Record, above: Mapping[str, Any]) -> Record:
    """Two mappings as one, and so the mappings in them; another component takes nothing from the one it replaces."""
    merged = dict(below)
    for key, value in above.items():
        under = below.get(key)
        if isinstance(value, Mapping) and isinstance(under, dict) and value.get("name") in (None, under.get("name")):
            merged[key] = _over(under, value)
        else:
            merged[key] = value
    return merged
