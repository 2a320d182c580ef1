"""Examples of components: Python code that builds and calls one, and the command that trains with it."""

import inspect
import re
from typing import Any

from unseen.core.config import build, parse_record
from unseen.core.registry import COMPONENT_ARGUMENTS, REGISTRIES, Registry

SIZES = {"num_classes": 4, "embedding_size": 16}
"""Arguments that a run would supply, for the batch of the examples."""

PARTS = {"pair_loss": "margin_pair", "uncertainty": "kl:gamma=0.1", "loss": "contrastive"}
"""The components that examples use as required arguments."""

USUAL_MINERS = {
    "contrastive": "distance",
    "margin": "distance",
    "multi_similarity": "multi_similarity",
    "quadruplet": "distance",
    "snr": "distance",
    "triplet": "semi_hard",
}
"""The usual miner of a loss."""


def required_of(component: Any) -> set[str]:
    """The settings of a component that have no default."""
    parameters = inspect.signature(component).parameters
    return {name for name, parameter in parameters.items() if parameter.default is parameter.empty}


def record_of(registry: Registry, name: str) -> str:
    """The record of a component as typed on the command line: its required arguments, and its first number."""
    entry, required = registry.entry(name), required_of(registry[name])
    settings = [f"{key}={nested(PARTS[key])}" for key in PARTS if key in required]
    numbers = [argument for argument in entry.arguments if re.fullmatch(r"[\d.e-]+", argument.default)]
    settings += [f"{argument.name}={argument.default}" for argument in numbers[:1]]
    return f"{name}:{','.join(settings)}" if settings else name


def nested(record: str) -> str:
    """A record inside another one, in parentheses where necessary."""
    return f"({record})" if ":" in record else record


def constructor(registry: Registry, record: dict[str, Any]) -> str:
    """The Python call that builds a record; it is also built here, so that no page shows a call that fails."""
    build(registry, record, SIZES)
    entry, required = registry.entry(record["name"]), required_of(registry[record["name"]])
    arguments = []
    for argument in entry.arguments:
        value = record.get(argument.name)
        if argument.name in COMPONENT_ARGUMENTS and value is not None:
            part = {"name": value} if isinstance(value, str) else value
            arguments.append(f"{argument.name}={constructor(COMPONENT_ARGUMENTS[argument.name], part)}")
        elif argument.name in record:
            arguments.append(f"{argument.name}={value!r}")
        elif argument.name in required:
            arguments.append(f"{argument.name}={SIZES[argument.name]}")
    return f"{'.'.join(entry.module.split('.')[:2])}.{entry.attribute}({', '.join(arguments)})"


def loss_for(miner: Any) -> str:
    """A pair loss for a miner of pairs, a triplet loss for a miner of triplets."""
    return "contrastive" if hasattr(miner, "masks") else "triplet"


def python(registry: Registry, name: str) -> str:
    """Python code that uses a component."""
    lines = ["import torch", "", "import unseen", ""]
    lines += ["embeddings = torch.randn(8, 16, requires_grad=True)", "labels = torch.arange(8) // 2"]
    record = parse_record(record_of(registry, name))
    if registry.kind == "miner":
        loss = constructor(REGISTRIES["loss"], {"name": loss_for(registry[name])})
        lines += [f"miner = {constructor(registry, record)}", "indices = miner(embeddings, labels)"]
        lines += ["print([len(part) for part in indices])", f"loss = {loss.removesuffix(')')}miner=miner)"]
    elif registry.kind == "uncertainty":
        lines += [f"loss = unseen.robust.Robust(unseen.losses.MarginPair(), {constructor(registry, record)})"]
    else:
        miner = {"miner": USUAL_MINERS[name]} if name in USUAL_MINERS else {}
        lines += [f"loss = {constructor(registry, record | miner)}"]
    lines += ["value = loss(embeddings, labels)", "value.backward()", "print(value.item(), loss.usage.counts())"]
    return "\n".join(lines)


def command(registry: Registry, name: str) -> str:
    """The command that trains with a component."""
    record = record_of(registry, name)
    if registry.kind == "miner":
        loss, miner = loss_for(registry[name]), record
    elif registry.kind == "uncertainty":
        loss, miner = f"robust:pair_loss={PARTS['pair_loss']},uncertainty={nested(record)}", ""
    else:
        loss, miner = record, USUAL_MINERS.get(name, "")
    loss = f'"{loss}"' if "(" in loss else loss
    return f"unseen train --data glyphs --loss {loss}" + (f" --miner {miner}" if miner else "")
