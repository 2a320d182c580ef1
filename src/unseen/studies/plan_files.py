"""Plans that ship with the package or come from a file, and the cells they become."""

from importlib.resources import files
from pathlib import Path

from unseen.core.config import Record, canonical_json, parse_record, read_yaml
from unseen.core.errors import ConfigError
from unseen.core.registry import nearest
from unseen.data import Catalogue, check_images, load_catalogue
from unseen.runs.recipe import prepare
from unseen.studies.expand_splits import expanded
from unseen.studies.plan import Cell, Plan
from unseen.studies.plan_ladder import with_built_ladder


def shipped_plans() -> dict[str, Path]:
    """The plans that ship with the package, by name."""
    folder = Path(str(files("unseen") / "studies" / "plans"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def study_folder(plan: str) -> Path:
    """The folder of a study when nobody states one."""
    return Path("out") / plan


def load_plan(
    name: str,
    data: str | None = None,
    *,
    ladder: str | None = None,
    folder: Path | None = None,
    cache: Path | None = None,
) -> Plan:
    """A plan by its name or from a YAML file, with a split for each rung and each pair that it asks for.

    `data` puts other data in the place of the plan's own, `ladder` another file in the place of its ladder. A ladder
    that the plan says how to build is built into `folder`, out/NAME when left out.
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
    if ladder is None:
        content = with_built_ladder(content, folder or study_folder(str(content.get("name"))), cache=cache)
    return Plan.from_mapping(expanded(content, ladder))


def plan_cells(plan: Plan) -> list[Cell]:
    """The plan's cells, each with its complete recipe, so that its name stands for every setting and for the data.

    Image files that a cell trains on at full depth are decoded once here, so that a broken one is named before a cell
    begins; the other depths decode every image when they fill their cache.
    """
    loaded: dict[str, Catalogue] = {}

    def load(record: Record) -> Catalogue:
        # Many cells share their data; it is read once.
        name = canonical_json(record)
        if name not in loaded:
            loaded[name] = load_catalogue(record)
        return loaded[name]

    cells = plan.cells(lambda config: prepare(config, load).recipe.to_mapping())
    for name in {canonical_json(cell.config["data"]) for cell in cells if cell.config["depth"] == "full"}:
        check_images(loaded[name])
    return cells
