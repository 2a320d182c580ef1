"""Registries: named components, found by reading their source before anything is imported.

A component registers by a decorator with a literal name::

    @loss("margin")
    class Margin(nn.Module): ...

The components of a package are found by parsing its files, so that `unseen list losses` needs no torch; a component's
module is imported when the component is first used. Losses and miners of pytorch-metric-learning have names that begin
with `pml.`; they are available if the library is installed.
"""

import difflib
import importlib
import importlib.util
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from unseen.core.errors import ConfigError
from unseen.core.registry.entries import Entry, read_entries
from unseen.core.registry.pml_entries import PREFIX, UNFIT, pml_entries

Component = TypeVar("Component", bound=Callable[..., Any])


class Registry:
    """The named components of one kind, in the files of one or a few packages.

    `foreign` is the module whose `adapted(kind, entry)` wraps a class of pytorch-metric-learning as a component.
    """

    def __init__(self, kind: str, *packages: str, plural: str | None = None, foreign: str | None = None) -> None:
        self.kind = kind
        self.plural = plural or f"{kind}s"
        self.packages = packages
        self.foreign = foreign
        self._loaded: dict[str, Any] = {}
        self._adapted: dict[str, Any] = {}

    def __call__(self, name: str) -> Callable[[Component], Component]:
        """Register the decorated class or function; a name that is already taken is an error."""

        def register(component: Component) -> Component:
            known = self._loaded.get(name)
            if known is not None and (known.__module__, known.__qualname__) != (
                component.__module__,
                component.__qualname__,
            ):
                raise ConfigError(
                    f"{self.kind} '{name}' is registered twice: by {known.__module__}.{known.__qualname__} "
                    f"and by {component.__module__}.{component.__qualname__}"
                )
            shipped = self._shipped.get(name)
            if shipped is not None and component.__module__ != shipped.module:
                raise ConfigError(
                    f"{self.kind} '{name}' is registered already by {shipped.module}", hint="Choose another name."
                )
            self._loaded[name] = component
            return component

        return register

    def __getitem__(self, name: str) -> Any:
        """The component of that name; its module is imported if necessary."""
        if self.foreign is not None and name.startswith(PREFIX):
            if name not in self._adapted:
                adapted = importlib.import_module(self.foreign).adapted
                self._adapted[name] = adapted(self.kind, self.entry(name))
            return self._adapted[name]
        if name not in self._loaded:
            if name not in self._shipped:
                raise self.unknown(name)
            importlib.import_module(self._shipped[name].module)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._shipped or name in self._loaded or name in self._foreign

    def names(self) -> list[str]:
        """The names of our own components, sorted."""
        return sorted(self._shipped.keys() | self._loaded.keys())

    def foreign_names(self) -> list[str]:
        """The names of pytorch-metric-learning's components, sorted; empty if it is not installed."""
        return sorted(self._foreign)

    def entry(self, name: str) -> Entry:
        """Name, summary and arguments of a component; those of this package are read without importing them."""
        if name in self._shipped:
            return self._shipped[name]
        if name in self._foreign:
            return self._foreign[name]
        if name in self._loaded:
            component = self._loaded[name]
            source = importlib.import_module(component.__module__).__file__
            entries = read_entries(Path(source), component.__module__, self.kind) if source else {}
            summary = (component.__doc__ or "").strip().split("\n")[0]
            return entries.get(name, Entry(name, summary, (), component.__module__, component.__qualname__))
        raise self.unknown(name)

    def name_of(self, component: object) -> str:
        """The registered name of a component or of an instance of it."""
        for candidate in (component, type(component)):
            for name, registered in (self._loaded | self._adapted).items():
                if registered is candidate:
                    return name
        name = getattr(component, "__name__", type(component).__name__)
        raise ConfigError(f"{name} is not a registered {self.kind}", hint=f'Register it by @{self.kind}("name").')

    def unknown(self, name: str) -> ConfigError:
        """The error for an unknown name, which suggests the nearest known one."""
        if self.foreign is not None and name.startswith(PREFIX):
            return self._unknown_foreign(name)
        return ConfigError(
            f"unknown {self.kind} '{name}'{nearest(name, self.names())}"
            f" ({len(self.names())} known: unseen list {self.plural.replace(' ', '-')})"
        )

    def _unknown_foreign(self, name: str) -> ConfigError:
        if not self._foreign:
            return ConfigError(
                f"{self.kind} '{name}' is one of pytorch-metric-learning, which is not installed",
                hint="Run pip install pytorch-metric-learning.",
            )
        reason = UNFIT.get(name.removeprefix(PREFIX))
        if reason is not None:
            return ConfigError(f"{self.kind} '{name}' cannot be used in a run: {reason}")
        return ConfigError(f"pytorch-metric-learning has no {self.kind} '{name}'{nearest(name, self.foreign_names())}")

    @cached_property
    def _foreign(self) -> dict[str, Entry]:
        return {} if self.foreign is None else pml_entries(self.plural)

    @cached_property
    def _shipped(self) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        for package in self.packages:
            for path in sorted(path for folder in _folders(package) for path in folder.glob("*.py")):
                module = package if path.stem == "__init__" else f"{package}.{path.stem}"
                for name, entry in read_entries(path, module, self.kind).items():
                    if name in entries:
                        raise ConfigError(
                            f"{self.kind} '{name}' is registered twice: by {entries[name].module} and by {module}"
                        )
                    entries[name] = entry
        return entries


def _folders(package: str) -> list[Path]:
    """The folders of a package; unlike `find_spec` of the whole name, this does not import its parents."""
    top, *below = package.split(".")
    spec = importlib.util.find_spec(top)
    return [Path(folder, *below) for folder in (spec and spec.submodule_search_locations) or []]


def nearest(name: str, known: list[str]) -> str:
    """The suggestion "; did you mean ...?" if a known name is near, otherwise an empty string.

    >>> nearest("multisimilarity", ["margin", "multi_similarity"])
    "; did you mean 'multi_similarity'?"
    """
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


loss = Registry("loss", "unseen.losses", "unseen.robust", plural="losses", foreign="unseen.pairs.pml_adapter")
uncertainty = Registry("uncertainty", "unseen.robust", plural="uncertainties")
miner = Registry("miner", "unseen.miners", foreign="unseen.pairs.pml_adapter")
method = Registry("method", "unseen.methods")
sampler = Registry("sampler", "unseen.samplers")
backbone = Registry("backbone", "unseen.models")
data = Registry("data", "unseen.data.sources", plural="data")
split = Registry("split", "unseen.data", "unseen.data.sources", "unseen.shifts")
transform = Registry("transform", "unseen.data")
optimizer = Registry("optimizer", "unseen.training")
schedule = Registry("schedule", "unseen.training")
score = Registry("score", "unseen.evaluation.scores")
analysis = Registry("analysis", "unseen.analyses", plural="analyses")

_ARGUMENTS = (loss, uncertainty, miner, method, sampler, backbone, data, split, transform, optimizer, schedule)
REGISTRIES: dict[str, Registry] = {registry.kind: registry for registry in (*_ARGUMENTS, score, analysis)}

COMPONENT_ARGUMENTS: dict[str, Registry] = {registry.kind: registry for registry in _ARGUMENTS} | {"pair_loss": loss}
"""Arguments whose value is itself a component, by the argument's name; a `score` is a name such as recall@1."""
