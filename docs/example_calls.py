"""Examples of components: the Python that builds one and calls it, and the command that trains with it."""

import inspect
import re
from typing import Any

from unseen.core.config import build, parse_record
from unseen.core.registry import COMPONENT_ARGUMENTS, REGISTRIES, Registry

SIZES = {"num_classes": 4, "embedding_size": 16}
"""What a run would fill in, for the batch of the examples."""

PARTS = {"pair_loss": "margin_pair", "uncertainty": "kl:gamma=0.1", "loss": "contrastive"}
"""The component that stands where one is needed."""

USUAL_MINERS = {
    "contrastive": "distance",
    "margin": "distance",
    "multi_similarity": "multi_similarity",
    "quadruplet": "distance",
    "snr": "distance",
    "triplet": "semi_hard",
}
"""The miner that a loss is mostly trained with."""


def required_of(component: Any) -> set[str]:
    """The settings of a component that have no default."""
    parameters = inspect.signature(component).parameters
    return {name for name, parameter in parameters.items() if parameter.default is parameter.empty}


def record_of(registry: Registry, name: str) -> str:
    """A component as it is typed: with the parts it needs, and its first number."""
    entry, required = registry.entry(name), required_of(registry[name])
    given = [f"{key}={nested(PARTS[key])}" for key in PARTS if key in required]
    numbers = [each for each in entry.arguments if re.fullmatch(r"[\d.e-]+", each.default)]
    given += [f"{each.name}={each.default}" for each in numbers[:1]]
    return f"{name}:{','.join(given)}" if given else name


def nested(record: str) -> str:
    """A record as it stands inside another one."""
    return f"({record})" if ":" in record else record


def constructor(registry: Registry, record: dict[str, Any]) -> str:
    """The call that builds a record, as Python; it is built here too, so that a page cannot show what fails."""
    build(registry, record, SIZES)
    entry, required = registry.entry(record["name"]), required_of(registry[record["name"]])
    given = []
    for argument in entry.arguments:
        value = record.get(argument.name)
        if argument.name in COMPONENT_ARGUMENTS and value is not None:
            part = {"name": value} if isinstance(value, str) else value
            given.append(f"{argument.name}={constructor(COMPONENT_ARGUMENTS[argument.name], part)}")
        elif argument.name in record:
            given.append(f"{argument.name}={value!r}")
        elif argument.name in required:
            given.append(f"{argument.name}={SIZES[argument.name]}")
    return f"{'.'.join(entry.module.split('.')[:2])}.{entry.attribute}({', '.join(given)})"


def loss_for(miner: Any) -> str:
    """A loss over pairs for a miner of pairs, one over triplets for a miner of triplets."""
    return "contrastive" if hasattr(miner, "masks") else "triplet"


def python(registry: Registry, name: str) -> str:
    """A few lines of Python that use a component."""
    lines = ["import torch", "", "import unseen", ""]
    lines += ["embeddings = torch.randn(8, 16, requires_grad=True)", "labels = torch.arange(8) // 2"]
    record = parse_record(record_of(registry, name))
    if registry.kind == "miner":
        loss = constructor(REGISTRIES["loss"], {"name": loss_for(registry[name])})
        lines += [f"miner = {constructor(registry, record)}", "found = miner(embeddings, labels)"]
        lines += ["print([len(part) for part in found])", f"loss = {loss.removesuffix(')')}miner=miner)"]
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
