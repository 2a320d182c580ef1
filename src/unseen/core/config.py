"""Configuration: records of a component's name and settings, validated against the component's signature.

A record is `{"name": "margin", "beta": 1.2}` in YAML or JSON, and `margin:beta=1.2` on the command line.
There is no second schema: the arguments of a constructor, with their types and defaults, are the keys of its record.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from unseen.core.errors import ConfigError
from unseen.core.registry import COMPONENT_ARGUMENTS, Registry, nearest

Record = dict[str, Any]

_SETTINGS = re.compile(r":(?=[A-Za-z_]\w*=)")


def parse_value(text: str) -> object:
    """Parse a value of the command line.

    >>> [parse_value(text) for text in ("1", "1e-3", "true", "none", "[1,2]", "007", "margin")]
    [1, 0.001, True, None, [1, 2], '007', 'margin']
    >>> parse_value("{birds: cub200=data/birds, mine: folder=my/images}")
    {'birds': 'cub200=data/birds', 'mine': 'folder=my/images'}
    >>> parse_value("[lite0, (resnet50:weights=a.pth,channels=3)]")
    ['lite0', {'name': 'resnet50', 'weights': 'a.pth', 'channels': 3}]
    """
    if text.lower() in ("none", "null"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"0\d+", text):
        return text  # 007 is a name
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    if text.startswith("[") and text.endswith("]"):
        return [parse_value(part.strip()) for part in _split_outside_brackets(text[1:-1]) if part.strip()]
    if text.startswith("(") and text.endswith(")"):
        return parse_record(text[1:-1])
    if text.startswith("{") and text.endswith("}"):
        return dict(_labelled(part) for part in _split_outside_brackets(text[1:-1]) if part.strip())
    return text


def _labelled(text: str) -> tuple[str, object]:
    label, colon, value = text.partition(":")
    if not colon or not label.strip() or not value.strip():
        raise ConfigError(f"cannot read '{text.strip()}' in curly brackets", hint="Write {label: value, label: value}.")
    return label.strip(), parse_value(value.strip())


def parse_record(text: str) -> Record:
    """Parse a record: `name`, `name:key=value,key=value` or, for data, `name=path:key=value`.

    A value in parentheses is itself a record.

    >>> parse_record("margin:beta=1.2,miner=(distance:upper_cutoff=none)")
    {'name': 'margin', 'beta': 1.2, 'miner': {'name': 'distance', 'upper_cutoff': None}}
    >>> parse_record("folder=C:/my birds")
    {'name': 'folder', 'path': 'C:/my birds'}
    """
    head, *rest = _SETTINGS.split(text, maxsplit=1)
    name, has_path, path = head.partition("=")
    record: Record = {"name": name.strip()}
    if has_path:
        record["path"] = path
    for setting in _split_outside_brackets(rest[0]) if rest else []:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"cannot read '{setting}' in '{text}'", hint="Write name:key=value,key=value.")
        if key in record:
            raise ConfigError(f"'{key}' is stated twice in '{text}'")
        record[key.strip()] = parse_value(value)
    return record


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def as_record(value: object, kind: str) -> Record:
    """A record from a string of the command line or a mapping of a file."""
    if isinstance(value, str):
        return parse_record(value)
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return dict(value)
    raise ConfigError(f"a {kind} must be a name or a mapping with a 'name'", got=value)


def complete(
    registry: Registry, value: str | Mapping[str, object], supplied: Mapping[str, object] | None = None
) -> Record:
    """The record with all defaults filled in and every value validated against the signature.

    `supplied` holds arguments that the run knows itself (number of classes, embedding size, seed). They take precedence
    over defaults and are not part of the record unless the user states them.
    """
    record = as_record(value, registry.kind)
    name = record.pop("name")
    component = registry[name]
    parameters = _parameters(component)
    hints = get_type_hints(component.__init__ if inspect.isclass(component) else component)
    for key in record:
        if key not in parameters:
            raise ConfigError(
                f"{registry.kind} '{name}' has no setting '{key}'{nearest(key, list(parameters))} "
                f"(it has: {', '.join(parameters) or 'none'})"
            )
    full: Record = {"name": name}
    for key, parameter in parameters.items():
        if key in record:
            if key in COMPONENT_ARGUMENTS:
                nested = record[key]
                full[key] = None if nested is None else complete(COMPONENT_ARGUMENTS[key], nested, supplied)
            else:
                stated = Any if parameter.annotation is parameter.empty else parameter.annotation
                full[key] = _validate(f"{registry.kind} '{name}'", key, record[key], hints.get(key, stated))
        elif supplied is not None and key in supplied:
            continue
        elif parameter.default is not parameter.empty:
            default = parameter.default
            full[key] = list(default) if isinstance(default, tuple) else default
        else:
            raise ConfigError(f"{registry.kind} '{name}' needs the setting '{key}'", hint=f"Write {name}:{key}=....")
    return full


def build(registry: Registry, value: str | Mapping[str, object], supplied: Mapping[str, object] | None = None) -> Any:
    """Build the component of a record; nested records are built first."""
    supplied = supplied or {}
    record = complete(registry, value, supplied)
    component = registry[record.pop("name")]
    arguments = {
        key: build(COMPONENT_ARGUMENTS[key], setting, supplied)
        if key in COMPONENT_ARGUMENTS and setting is not None
        else setting
        for key, setting in record.items()
    }
    for key in _parameters(component):
        if key not in arguments and key in supplied:
            arguments[key] = supplied[key]
    return component(**arguments)


def record_of(registry: Registry, component: object) -> Record:
    """The record that would build this component again; components store each argument under its own name."""
    record: Record = {"name": registry.name_of(component)}
    for key in _parameters(type(component)):
        value = getattr(component, key)
        if key in COMPONENT_ARGUMENTS and value is not None:
            value = record_of(COMPONENT_ARGUMENTS[key], value)
        record[key] = list(value) if isinstance(value, tuple) else value
    return record


def read_yaml(path: Path) -> Record:
    """Read the mapping in a YAML file with the safe loader, which cannot run code."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no file {path}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ConfigError(f"{path} must hold a mapping of settings", got=type(content).__name__)
    return content


def canonical_json(content: object) -> str:
    """Canonical JSON: sorted keys, no spaces, no NaN."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def hash_of(content: object) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the canonical JSON.

    >>> hash_of({"a": 1, "b": 2}) == hash_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:16]


def _parameters(component: Any) -> dict[str, inspect.Parameter]:
    """The settings in a signature; what is positional-only is handed over by the caller and no setting."""
    parameters = inspect.signature(component).parameters
    return {name: each for name, each in parameters.items() if each.kind is not each.POSITIONAL_ONLY}


def _validate(owner: str, key: str, value: object, annotation: Any) -> object:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError  # slow to import, needed only here

    adapter: TypeAdapter[object]
    try:
        adapter = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # models and dataclasses have a configuration of their own
        adapter = TypeAdapter(annotation)
    try:
        valid = adapter.validate_python(value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].replace("Input should be", "it should be")
        raise ConfigError(f"{owner}: {key} has the wrong type ({reason})", got=value) from None
    return list(valid) if isinstance(valid, tuple) else valid
