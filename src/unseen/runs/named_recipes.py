"""Named recipes: published combinations of loss, miner and method, with the papers' values per data set."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from unseen.core.config import Record, as_record, read_yaml
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest


@dataclass(frozen=True, kw_only=True)
class NamedRecipe:
    """A published combination; `by_data` holds the settings that differ for a data set."""

    name: str
    title: str
    reference: str
    settings: Record
    by_data: dict[str, Record]

    def settings_for(self, data: str) -> Record:
        """The settings of a run on a data set."""
        return _over(self.settings, self.by_data.get(data, {}))

    def under(self, stated: Mapping[str, object], data: str) -> Record:
        """Stated settings over this recipe's; a stated loss or method of the same name overrides its settings only.

        Raises:     ConfigError for a loss or method of another name
        """
        settings = self.settings_for(data)
        merged = {**settings, **stated}
        for kind in ("loss", "method"):
            if kind in settings and kind in stated:
                record = {"name": "none"} if stated[kind] is None else as_record(stated[kind], kind)
                if record["name"] != settings[kind]["name"]:
                    raise ConfigError(
                        f"recipe '{self.name}' has the {kind} '{settings[kind]['name']}'",
                        got=record["name"],
                        hint=f"Leave out --recipe or --{kind}.",
                    )
                merged[kind] = _over(settings[kind], record)
        return merged


def named_recipes() -> dict[str, NamedRecipe]:
    """All named recipes."""
    content = read_yaml(Path(str(files("unseen") / "runs" / "recipes.yaml")))
    return {name: NamedRecipe(name=name, **({"by_data": {}} | recipe)) for name, recipe in sorted(content.items())}


def load_recipe(name: str) -> NamedRecipe:
    """The recipe with a name.

    Raises:     ConfigError for an unknown name
    """
    known = named_recipes()
    if name not in known:
        close = nearest(name, list(known))
        raise ConfigError(f"unknown recipe '{name}'{close} ({len(known)} known: unseen list recipes)")
    return known[name]


def _over(below: Record, above: Mapping[str, object]) -> Record:
    """Merge two mappings recursively; a component of another name replaces the one below entirely."""
    merged = dict(below)
    for key, value in above.items():
        base = below.get(key)
        if isinstance(value, Mapping) and isinstance(base, dict) and value.get("name") in (None, base.get("name")):
            merged[key] = _over(base, value)
        else:
            merged[key] = value
    return merged
