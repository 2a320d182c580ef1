"""Plans that ship with the package or come from a file. Loading one reads and checks it; it computes nothing."""

from importlib.resources import files
from pathlib import Path

from unseen.core.config import parse_record, read_yaml
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest
from unseen.studies.plan import Plan


def shipped_plans() -> dict[str, Path]:
    """The plans that ship with the package, by name."""
    folder = Path(str(files("unseen") / "studies" / "plans"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load_plan(name: str, data: str | None = None, *, ladder: str | None = None) -> Plan:
    """Read and check a plan by its name or from a YAML file; `prepare_study` then builds and expands its splits.

    `data` replaces the plan's data, `ladder` the file of its ladder.

    Raises:     ConfigError for an unknown plan, or one that does not fit
    """
    shipped = shipped_plans()
    if name in shipped:
        content = read_yaml(shipped[name])
    elif name.endswith((".yaml", ".yml")):
        content = read_yaml(Path(name))
    else:
        raise ConfigError(
            f"unknown study '{name}'{nearest(name, list(shipped))} (there are: {', '.join(shipped)})",
            hint="Use one of them or a YAML file.",
        )
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
