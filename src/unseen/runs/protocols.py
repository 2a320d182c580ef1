"""Protocols: the complete training settings of four papers (R, K, D and O, each file names its paper)."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from unseen.core.config import Record, as_record, read_yaml
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest

_FOLDER = Path(str(files("unseen.runs"))) / "protocols"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A paper's training settings, those it changes for a data set or a loss, and notes for the reader."""

    name: str
    title: str
    reference: str
    settings: Record
    by_data: dict[str, Record]
    losses: dict[str, Record]
    losses_by_data: dict[str, dict[str, Record]]
    notes: tuple[str, ...]

    def settings_for(self, data: str, loss: str | Record | None = None) -> Record:
        """The settings of a run on a data set, with the stated loss or the paper's own.

        A stated loss gets what the paper sets for it, such as the learning rate of its proxies, where it states
        nothing else.
        """
        settings = self.settings | self.by_data.get(data, {})
        record = as_record(settings["loss"] if loss is None else loss, "loss")
        published = self.losses.get(record["name"], {}) | self.losses_by_data.get(data, {}).get(record["name"], {})
        return settings | {"loss": published | record}


def known_protocols() -> list[str]:
    """The names of all protocols."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def load_protocol(name: str) -> Protocol:
    """The protocol of a paper.

    Raises:     ConfigError for an unknown name
    """
    known = known_protocols()
    if name not in known:
        raise ConfigError(f"unknown protocol '{name}'{nearest(str(name), known)} (known: {', '.join(known)})")
    content = read_yaml(_FOLDER / f"{name}.yaml")
    return Protocol(name=name, **(content | {"notes": tuple(content["notes"])}))
