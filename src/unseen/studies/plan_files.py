"""Plans that ship with the package or come from a file. Loading one reads and checks it; it computes nothing."""

from importlib.resources import files
from pathlib import Path

from unseen.core.config import Record, parse_record, read_yaml
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest
from unseen.studies.plan import Plan


def shipped_plans() -> dict[str, Path]:
    """The plans that ship with the package, by name."""
    folder = Path(str(files("unseen") / "studies" / "plans"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load_plan(name: str, data: str | None = None, *, ladder: str | None = None) -> Plan:
    """Read and check a plan by its name or from a YAML file; `prepare_study` then builds and expands its splits.

    `data` replaces the plan's data, `ladder` the file of its ladder. A file with `extends: demo` states what it adds to
    that plan or changes: its splits, methods, analyses, ... join those of the other.

    Raises:     ConfigError for an unknown plan, or one that does not fit
    """
    content = _read_plan(name)
    if data is not None:
        record = parse_record(data)
        content["data"] = {record["name"]: record}
    plan = Plan.from_mapping(content)
    if ladder is None:
        return plan
    labels = [label for label, record in plan.splits.items() if record["name"] == "ladder"]
    if not labels:
        raise ConfigError("the study has no split of a ladder", got=ladder, hint="Leave --ladder out.")
    return plan.with_ladder_file(ladder, labels)


def _read_plan(name: str, extended_by: tuple[str, ...] = ()) -> Record:
    """The content of a plan's file, with that of the plan that it extends."""
    shipped = shipped_plans()
    if name in extended_by:
        raise ConfigError(f"the plan '{name}' extends itself", got=[*extended_by, name])
    if name in shipped:
        content = read_yaml(shipped[name])
    elif name.endswith((".yaml", ".yml")):
        content = read_yaml(Path(name))
    else:
        raise ConfigError(
            f"unknown study '{name}'{nearest(name, list(shipped))} (there are: {', '.join(shipped)})",
            hint="Use one of them or a YAML file.",
        )
    if "extends" not in content:
        return content
    extended = _read_plan(str(content.pop("extends")), (*extended_by, name))
    for key, value in content.items():
        both = isinstance(value, dict) and isinstance(extended.get(key), dict)
        extended[key] = extended[key] | value if both else value
    return extended
