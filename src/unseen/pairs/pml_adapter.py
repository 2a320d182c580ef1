"""Adapters that let losses and miners of pytorch-metric-learning be called, seeded, configured and saved like ours."""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import Tensor, nn

from unseen.core.config import as_record
from unseen.core.errors import BatchError, ConfigError
from unseen.core.randomness import derive, key_from_torch, seeded
from unseen.core.registry import nearest
from unseen.core.registry.entries import REQUIRED, Argument, Entry
from unseen.core.registry.pml_entries import LIBRARY
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.parameters import ParameterGroup
from unseen.pairs.tuples import LossOutput, Miner, PairIndices, Triplets, Usage, mined, usage_of

PARTS = {
    "distance": "distances",
    "reducer": "reducers",
    "embedding_regularizer": "regularizers",
    "weight_regularizer": "regularizers",
}
"""Settings whose value is the name, or the record, of a class in a folder of the library."""

_TYPES: dict[str, Any] = {"bool": bool, "int": int, "float": float, "int | float": int | float}


class PMLLoss(nn.Module):
    """A loss of pytorch-metric-learning with a miner of either library; random draws derive from the key."""

    library_class: type[nn.Module]
    usage: Usage | None = None

    # The settings are those of the library's constructor; `adapted` puts its signature on the class.
    def __init__(self, **settings: object) -> None:
        super().__init__()
        bound = _bound(type(self), settings)
        for name, value in bound.items():
            setattr(self, name, value)
        theirs = {name: value for name, value in bound.items() if name not in ("miner", "seed")}
        with seeded(derive(bound["seed"], "foreign loss")):
            self.theirs = _made(self.library_class, theirs)

    def forward(
        self,
        embeddings: Tensor | Pairs,
        labels: Tensor | None = None,
        indices_tuple: Sequence[Tensor] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        *,
        key: int | None = None,
    ) -> Tensor:
        """Loss of a batch, in at least float32; random draws of the miner and of the loss derive from `key`."""
        pairs = pairs_of(embeddings, labels, ref_emb, ref_labels)
        key = key_from_torch() if key is None else key
        miner = cast("Miner | None", self.miner)  # set from the settings, which nn.Module types as tensors or modules
        if indices_tuple is None and miner is not None:
            indices_tuple = mined(miner, pairs.detached, key)
        reference = () if pairs.is_self else (pairs.ref_embeddings, pairs.ref_labels)
        try:
            with seeded(derive(key, "foreign loss")):
                value = self.theirs(pairs.embeddings, pairs.labels, indices_tuple, *reference)
        except ValueError as problem:
            reason = " ".join(str(problem).split())
            raise BatchError(f"{self.library_class.__name__} of pytorch-metric-learning: {reason}") from problem
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ConfigError(f"{self.library_class.__name__}: the reducer must return a scalar", got=self.reducer)
        # Without tuples the library does not say what it used.
        self.usage = None if indices_tuple is None else _usage(pairs, indices_tuple, value)
        return value.squeeze()

    def own_parameters(self) -> list[ParameterGroup]:
        """The parameters of the wrapped loss, trained like the model."""
        parameters = list(self.theirs.parameters())
        return [{"params": parameters, "lr": None, "weight_decay": None}] if parameters else []


class PMLMiner:
    """A miner of pytorch-metric-learning as a pure function of embeddings, labels and key."""

    library_class: type[nn.Module]

    def __init__(self, **settings: object) -> None:
        bound = _bound(type(self), settings)
        for name, value in bound.items():
            setattr(self, name, value)
        self.theirs = _made(self.library_class, bound)

    def __call__(
        self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None
    ) -> Triplets | PairIndices:
        """Tuples of a batch, a pure function of embeddings, labels and key."""
        return mined(self.theirs, pairs_of(embeddings, labels).detached, key_from_torch() if key is None else key)


def adapted(kind: str, entry: Entry) -> type[PMLLoss] | type[PMLMiner]:
    """An adapter class for the library's class in an entry, with the settings of the entry.

    A loss has two more settings: `miner`, of either library, and `seed`, which initialises its parameters.
    """
    library_class = getattr(importlib.import_module(entry.module), entry.attribute)
    parameters = [_parameter(library_class, argument) for argument in entry.arguments]
    if kind == "loss":
        for name, annotation, default in (("miner", Miner | None, None), ("seed", int, 0)):
            parameters.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            )
    base = PMLLoss if kind == "loss" else PMLMiner
    own = {
        "__doc__": entry.summary,
        "__module__": __name__,
        "__signature__": inspect.Signature(parameters),
        "library_class": library_class,
    }
    return type(entry.attribute, (base,), own)


def _parameter(library_class: type, argument: Argument) -> inspect.Parameter:
    default: Any = inspect.Parameter.empty
    if argument.default != REQUIRED:
        inits = [
            inspect.signature(own["__init__"]).parameters
            for own in map(vars, library_class.__mro__)
            if "__init__" in own
        ]
        default = next(init[argument.name].default for init in inits if argument.name in init)
    annotation = _TYPES.get(argument.type, Any)
    return inspect.Parameter(argument.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _bound(owner: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(owner).bind(**settings)
    bound.apply_defaults()
    return dict(bound.arguments)


def _made(library_class: type, settings: Mapping[str, Any]) -> Any:
    """An object of the library; settings that name classes of the library are built first."""
    ready = {
        name: _part(PARTS[name], value) if name in PARTS and value is not None else value
        for name, value in settings.items()
    }
    try:
        return library_class(**ready)
    except Exception as problem:  # a constructor that is not ours may raise anything
        raise ConfigError(
            f"{library_class.__name__} of pytorch-metric-learning refuses its settings ({problem})", got=dict(settings)
        ) from problem


def _part(folder: str, value: str | Mapping[str, Any]) -> Any:
    record = as_record(value, folder.removesuffix("s"))
    name = record.pop("name")
    library = importlib.import_module(f"{LIBRARY}.{folder}")
    known = [attribute for attribute, value in vars(library).items() if inspect.isclass(value)]
    if name not in known:
        raise ConfigError(f"pytorch-metric-learning has no '{name}' in {folder}{nearest(name, known)}")
    return _made(getattr(library, name), record)


def _usage(pairs: Pairs, indices_tuple: Sequence[Tensor], value: Tensor) -> Usage:
    num_tuples = len(indices_tuple[0]) + (len(indices_tuple[2]) if len(indices_tuple) == 4 else 0)
    return usage_of(pairs, LossOutput(value, num_tuples, num_tuples))
