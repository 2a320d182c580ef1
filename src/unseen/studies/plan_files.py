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


def study_folder(plan: str) -> Path:
    """The default folder of a study."""
    return Path("out") / plan


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
        known = list(shipped)
        raise ConfigError(
            f"unknown study '{name}'{nearest(name, known)} (there are: {', '.join(known)})",
            hint="Use one of them or a YAML file.",
        )
    if data is not None:
        record = parse_record(data)
        content["data"] = {record["name"]: record}
    plan = Plan.from_mapping(content)
    return plan if ladder is None else _with_ladder(plan, ladder)


def _with_ladder(plan: Plan, path: str) -> Plan:
    """The plan with another ladder file in all its splits of a ladder."""
    if not any(record["name"] == "ladder" for record in plan.splits.values()):
        raise ConfigError("the study has no split of a ladder", got=path, hint="Leave --ladder out.")
    splits = {
        label: {key: value for key, value in record.items() if key != "build"} | {"path": path}
        if record["name"] == "ladder"
        else record
        for label, record in plan.splits.items()
    }
    return plan.with_splits(splits)
