"""Protocols: the complete settings under which the papers trained, by the paper's letter in SPEC (R, K, D, O)."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from unseen.core.config import Record, as_record
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest

_FOLDER = files("unseen.runs") / "protocols"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A paper's settings of a run, those it changes for a data set or a loss, and what a reader must know of them."""

    name: str
    title: str
    reference: str
    settings: Record
    by_data: dict[str, Record]
    losses: dict[str, Record]
    losses_by_data: dict[str, dict[str, Record]]
    notes: tuple[str, ...]

    def settings_for(self, data: str, loss: str | Record | None = None) -> Record:
        """The settings of a run on a data set, with the loss that is asked for or the paper's own.

        A loss of another name than the paper's own keeps what the caller states and gets what the paper states for
        that loss, such as the learning rate of its proxies.
        """
        settings = self.settings | self.by_data.get(data, {})
        record = as_record(settings["loss"] if loss is None else loss, "loss")
        stated = self.losses.get(record["name"], {}) | self.losses_by_data.get(data, {}).get(record["name"], {})
        return settings | {"loss": stated | record}


def known_protocols() -> list[str]:
    """The names of all protocols."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _FOLDER.iterdir() if entry.name.endswith(".yaml"))


def load_protocol(name: str) -> Protocol:
    """The protocol of a paper.

    Raises: ConfigError for an unknown name
    """
    known = known_protocols()
    if name not in known:
        raise ConfigError(f"unknown protocol '{name}'{nearest(name, known)} (there are: {', '.join(known)})")
    content: dict[str, Any] = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return Protocol(name=name, **(content | {"notes": tuple(content["notes"])}))
