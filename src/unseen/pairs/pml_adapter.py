"""Foreign losses and miners: those of pytorch-metric-learning, called, seeded, configured and saved as ours are."""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from unseen.core.config import as_record
from unseen.core.registry.entries import REQUIRED, Argument, Entry
from unseen.core.errors import BatchError, ConfigError
from unseen.core.registry.pml_entries import LIBRARY
from unseen.core.randomness import derive, key_from_torch, seeded
from unseen.core.registry import nearest
from unseen.pairs.pairs import Pairs, pairs_of
from unseen.pairs.tuples import LossOutput, Miner, PairIndices, Triplets, Usage, mined, usage_of

PARTS = {
    "distance": "distances",
    "reducer": "reducers",
    "embedding_regularizer": "regularizers",
    "weight_regularizer": "regularizers",
}
"""Settings whose value is the name, or the record, of a class in a folder of the library."""

_TYPES: dict[str, Any] = {"bool": bool, "int": int, "float": float, "int | float": int | float}


class ForeignLoss(nn.Module):
    """A loss of pytorch-metric-learning with a miner of either library; its draws come from the key."""

    made_by: type[nn.Module]
    usage: Usage | None = None

    # The constructor that the library wrote decides on the settings; `adapted` puts its signature on the class.
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        settings = _bound(type(self), settings)
        for name, value in settings.items():
            setattr(self, name, value)
        theirs = {name: value for name, value in settings.items() if name not in ("miner", "seed")}
        with seeded(derive(settings["seed"], "foreign loss")):
            self.theirs = _made(self.made_by, theirs)

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
        """The loss of a batch, in at least float32; `key` governs what the miner and the loss itself draw."""
        pairs = pairs_of(embeddings, labels, ref_emb, ref_labels)
        key = key_from_torch() if key is None else key
        miner: Miner | None = self.miner
        if indices_tuple is None and miner is not None:
            indices_tuple = mined(miner, pairs.detached, key)
        reference = () if pairs.is_self else (pairs.ref_embeddings, pairs.ref_labels)
        try:
            with seeded(derive(key, "foreign loss")):
                value = self.theirs(pairs.embeddings, pairs.labels, indices_tuple, *reference)
        except ValueError as problem:
            reason = " ".join(str(problem).split())
            raise BatchError(f"{self.made_by.__name__} of pytorch-metric-learning: {reason}") from problem
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ConfigError(f"{self.made_by.__name__}: the reducer must give one number", got=self.reducer)
        # Without tuples the library does not say what it used.
        self.usage = None if indices_tuple is None else _usage(pairs, indices_tuple, value)
        return value.squeeze()

    def own_parameters(self) -> list[dict[str, Any]]:
        """The parameters of their loss, trained as the model's are."""
        parameters = list(self.theirs.parameters())
        return [{"params": parameters, "lr": None, "weight_decay": None}] if parameters else []


class ForeignMiner:
    """A miner of pytorch-metric-learning as a pure function of embeddings, labels and key."""

    made_by: type[nn.Module]

    def __init__(self, **settings: Any) -> None:
        settings = _bound(type(self), settings)
        for name, value in settings.items():
            setattr(self, name, value)
        self.theirs = _made(self.made_by, settings)

    def __call__(
        self, embeddings: Tensor | Pairs, labels: Tensor | None = None, *, key: int | None = None
    ) -> Triplets | PairIndices:
        """The tuples of a batch, a function of embeddings, labels and key."""
        return mined(self.theirs, pairs_of(embeddings, labels).detached, key_from_torch() if key is None else key)


def adapted(kind: str, entry: Entry) -> type[ForeignLoss] | type[ForeignMiner]:
    """A class of ours around the library's class in an entry; its settings are those of the entry.

    A loss has two more: `miner`, of either library, and `seed`, from which its parameters are drawn.
    """
    made_by = getattr(importlib.import_module(entry.module), entry.attribute)
    parameters = [_parameter(made_by, argument) for argument in entry.arguments]
    if kind == "loss":
        for name, annotation, default in (("miner", Miner | None, None), ("seed", int, 0)):
            parameters.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            )
    base = ForeignLoss if kind == "loss" else ForeignMiner
    own = {
        "__doc__": entry.summary,
        "__module__": __name__,
        "__signature__": inspect.Signature(parameters),
        "made_by": made_by,
    }
    return type(entry.attribute, (base,), own)


def _parameter(made_by: type, argument: Argument) -> inspect.Parameter:
    default: Any = inspect.Parameter.empty
    if argument.default != REQUIRED:
        inits = [
            inspect.signature(own["__init__"]).parameters for own in map(vars, made_by.__mro__) if "__init__" in own
        ]
        default = next(init[argument.name].default for init in inits if argument.name in init)
    annotation = _TYPES.get(argument.type, Any)
    return inspect.Parameter(argument.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _bound(owner: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(owner).bind(**settings)
    bound.apply_defaults()
    return dict(bound.arguments)


def _made(made_by: type, settings: Mapping[str, Any]) -> Any:
    """An object of the library; settings that name classes of its own are made first."""
    ready = {
        name: _part(PARTS[name], value) if name in PARTS and value is not None else value
        for name, value in settings.items()
    }
    try:
        return made_by(**ready)
    except Exception as problem:  # a constructor that is not ours may raise anything
        raise ConfigError(
            f"{made_by.__name__} of pytorch-metric-learning refuses its settings ({problem})", got=dict(settings)
        ) from problem


def _part(folder: str, value: str | Mapping[str, Any]) -> Any:
    record = as_record(value, folder.removesuffix("s"))
    name = record.pop("name")
    library = importlib.import_module(f"{LIBRARY}.{folder}")
    known = [each for each, found in vars(library).items() if inspect.isclass(found)]
    if name not in known:
        raise ConfigError(f"pytorch-metric-learning has no '{name}' in {folder}{nearest(name, known)}")
    return _made(getattr(library, name), record)


def _usage(pairs: Pairs, indices_tuple: Sequence[Tensor], value: Tensor) -> Usage:
    used = len(indices_tuple[0]) + (len(indices_tuple[2]) if len(indices_tuple) == 4 else 0)
    return usage_of(pairs, LossOutput(value, used, used))
