"""Pydantic models whose errors are one sentence of ours: who, what, what was got, and the nearest name.

A validator inside a model may raise `ConfigError` itself: pydantic lets it pass, so its words reach the user unchanged.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unseen.core.errors import ConfigError
from unseen.core.registry import nearest

Model = TypeVar("Model", bound=BaseModel)
Schema = dict[str, Any]

SETTINGS = ConfigDict(frozen=True, extra="forbid", strict=True)
"""The configuration of our models: nothing changes later, no unknown keys, and no "3" or True where 3 is meant.

A tuple field that takes a list, as YAML holds it, is `Annotated[tuple[Count, ...], Field(strict=False)]`; its items
stay strict.
"""

Count = Annotated[int, Field(ge=0)]
PositiveInt = Annotated[int, Field(ge=1)]
PositiveNumber = Annotated[int, Field(gt=0)] | Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A union, so that an integer stays one: 10 and 10.0 have different hashes."""

_NAMES = {
    "integer": "an integer",
    "number": "a finite number",
    "string": "a string",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "none",
}
_BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def validate(model: type[Model], content: Mapping[str, object], owner: str) -> Model:
    """Build a model from a mapping. The first thing that does not fit is a `ConfigError` that begins with `owner`.

    >>> class Run(BaseModel):
    ...     model_config = SETTINGS
    ...     epochs: Count
    ...     size: PositiveInt | None = None
    >>> validate(Run, {"epochs": 3}, "run").epochs
    3
    >>> validate(Run, {"epochs": 3, "size": 0}, "run")
    Traceback (most recent call last):
    ...
    unseen.core.errors.ConfigError: run: size must be an integer >= 1 or none; got 0
    >>> validate(Run, {"epoch": 3}, "run")
    Traceback (most recent call last):
    ...
    unseen.core.errors.ConfigError: run: unknown setting 'epoch'; did you mean 'epochs'? (known: epochs, size)
    """
    try:
        return model.model_validate(dict(content))
    except ValidationError as problem:
        raise config_error(problem, model, owner) from None


def config_error(problem: ValidationError, model: type[BaseModel], owner: str) -> ConfigError:
    """The sentence for a failed validation: about an unknown key, else a missing one, else the first wrong value.

    A field's own hint is `Field(json_schema_extra={"hint": "A full sentence."})`.
    """
    urgency = {"extra_forbidden": 0, "invalid_key": 0, "missing": 1}
    error = min(problem.errors(include_url=False), key=lambda error: urgency.get(error["type"], 2))
    schema = model.model_json_schema()
    path, field = _walk(schema, error["loc"])
    where, key = ": ".join([owner, *path[:-1]]), str(error["loc"][-1]) if error["loc"] else ""
    if error["type"] == "missing":
        return ConfigError(f"{where}: the setting '{key}' is missing", hint=field.get("hint"))
    if error["type"] in urgency:
        parent = _without_none(_walk(schema, error["loc"][:-1])[1], schema)
        return unknown_setting(where, key, list(parent.get("properties", {})))
    if error["type"] == "value_error" or not path:  # a validator that did not raise a ConfigError of its own
        return ConfigError(": ".join([owner, *path, error["msg"].removeprefix("Value error, ")]), got=error["input"])
    wanted = _describe(field, schema) or error["msg"].removeprefix("Input should be ")
    return ConfigError(f"{where}: {path[-1]} must be {wanted}", got=error["input"], hint=field.get("hint"))


def unknown_setting(owner: str, key: str, known: list[str]) -> ConfigError:
    """The error for a key that nobody knows, with the nearest one."""
    return ConfigError(f"{owner}: unknown setting '{key}'{nearest(key, known)} (known: {', '.join(known)})")


def _walk(schema: Schema, location: Sequence[int | str]) -> tuple[list[str], Schema]:
    """The names on the way to a value, and its JSON schema; the alternatives of a union are not entered."""
    path, node = [], _resolved(schema, schema)
    for step in location:
        node = _without_none(node, schema)
        if "anyOf" in node:
            break
        path.append(str(step))
        below = node.get("items") if isinstance(step, int) else node.get("properties", {}).get(step)
        below = below if below is not None else node.get("additionalProperties")
        node = _resolved(below, schema) if isinstance(below, dict) else {}
    return path, node


def _without_none(node: Schema, schema: Schema) -> Schema:
    """The alternative besides none, if there is just one."""
    present = [branch for branch in node.get("anyOf", []) if branch.get("type") != "null"]
    return _resolved(present[0], schema) if len(present) == 1 else node


def _resolved(node: Schema, schema: Schema) -> Schema:
    """The definition that a node refers to, with the node's own keys."""
    return {**schema["$defs"][node["$ref"].rsplit("/", 1)[1]], **node} if "$ref" in node else node


def _describe(node: Schema, schema: Schema) -> str:
    """What a JSON schema asks for, in words; empty if there are none for it."""
    node = _resolved(node, schema)
    if "anyOf" in node:
        types = [branch.get("type") for branch in node["anyOf"]]
        # Beside all numbers, integers need no words of their own.
        branches = [branch for branch in node["anyOf"] if branch.get("type") != "integer" or "number" not in types]
        words = [_describe(branch, schema) for branch in branches]
        return " or ".join(words) if all(words) else ""
    if "enum" in node or "const" in node:
        return "one of " + ", ".join(repr(value) for value in node.get("enum", [node.get("const")]))
    words = [_NAMES.get(node.get("type", ""), "")]
    words.append(" and ".join(f"{sign} {node[key]:g}" for key, sign in _BOUNDS.items() if key in node))
    words += ["that is not empty"] if any(node.get(key) for key in ("minItems", "minLength", "minProperties")) else []
    return " ".join(filter(None, words))
