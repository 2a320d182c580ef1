"""Foreign components: which losses and miners pytorch-metric-learning offers, read from its source, not imported."""

import ast
import importlib.util
from pathlib import Path

from unseen.core.entries import REQUIRED, Argument, Entry, arguments_of, constructor_of

LIBRARY = "pytorch_metric_learning"
PREFIX = "pml."
"""What stands before the name of a class of that library: `pml.TripletMarginLoss`."""

UNFIT = {
    "CrossBatchMemory": "the place in its queue is in no checkpoint; use cross_batch_memory:loss=(pml.ContrastiveLoss)",
    "DynamicSoftMarginLoss": "its histogram is in no checkpoint, so a run could not be continued",
    "EmbeddingsAlreadyPackagedAsTriplets": "batches here are not packed as triplets",
    "GenericPairLoss": "it is the base of other losses",
    "ManifoldLoss": "it takes no labels",
    "MultipleLosses": "it is made of other losses",
    "SelfSupervisedLoss": "it takes two views of each image instead of labels",
    "VICRegLoss": "it takes two views of each image instead of labels",
}
"""Classes of the library that a run cannot use, and why."""

_NO_SETTINGS = ("collect_stats", "weight_init_func")


def pml_entries(part: str) -> dict[str, Entry]:
    """Name -> entry of the library's "losses" or "miners" that a run can use; empty where it is not installed."""
    spec = importlib.util.find_spec(LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        return {}
    library = Path(spec.submodule_search_locations[0])
    files = [*sorted((library / part).glob("*.py")), *sorted((library / "utils").glob("module_with_records*.py"))]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    classes = {node.name: node for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)}
    exported = [
        alias.name
        for node in trees[library / part / "__init__.py"].body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    return {
        PREFIX + name: Entry(
            PREFIX + name,
            f"{name} of pytorch-metric-learning.",
            tuple(map(_typed, _settings(classes[name], classes, set(_NO_SETTINGS)))),
            f"{LIBRARY}.{part}",
            name,
        )
        for name in exported
        if name in classes and name not in UNFIT and not name.startswith("Base") and not name.endswith("Mixin")
    }


def _settings(node: ast.ClassDef, classes: dict[str, ast.ClassDef], taken: set[str]) -> list[Argument]:
    """What a class takes and what it passes on to its bases by **kwargs, less what it fixes for them itself."""
    found = [argument for argument in arguments_of(node) if argument.name not in taken]
    taken |= {argument.name for argument in found}
    init = constructor_of(node)
    if init is not None:
        if init.args.kwarg is None:
            return found
        taken |= _fixed(init)
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            found += _settings(classes[base.id], classes, taken)
    return found


def _fixed(init: ast.FunctionDef) -> set[str]:
    """The arguments that a constructor gives to the one above it by name and does not read from its **kwargs."""
    fixed, read = set(), set()
    for node in ast.walk(init):
        match node:
            case ast.Call(func=ast.Attribute(attr="__init__"), keywords=keywords):
                fixed |= {keyword.arg for keyword in keywords if keyword.arg is not None}
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                read.add(name)
    return fixed - read


def _typed(argument: Argument) -> Argument:
    """The argument with the type that its default shows, as the library states few."""
    if argument.default == REQUIRED:
        return Argument(argument.name, argument.type or "int | float", argument.default)
    if argument.default in ("True", "False"):
        return Argument(argument.name, "bool", argument.default)
    is_number = argument.default.lstrip("-")[:1].isdigit()
    return Argument(argument.name, "int | float" if is_number else "", argument.default)
