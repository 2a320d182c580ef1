"""The losses and miners of pytorch-metric-learning, read from its source without importing it."""

import ast
import importlib.util
from pathlib import Path

from unseen.core.registry.entries import REQUIRED, Argument, Entry, arguments_of, constructor_of

LIBRARY = "pytorch_metric_learning"
PREFIX = "pml."
"""Prefix of the names of that library's classes: `pml.TripletMarginLoss`."""

UNFIT = {
    "CrossBatchMemory": "its queue position is not checkpointed; use cross_batch_memory:loss=(pml.ContrastiveLoss)",
    "DynamicSoftMarginLoss": "its histogram is not checkpointed, so a run could not be resumed",
    "EmbeddingsAlreadyPackagedAsTriplets": "batches here are not packaged as triplets",
    "GenericPairLoss": "it is a base class of other losses",
    "ManifoldLoss": "it takes no labels",
    "MultipleLosses": "it is a combination of other losses",
    "SelfSupervisedLoss": "it takes two views of each image instead of labels",
    "VICRegLoss": "it takes two views of each image instead of labels",
}
"""Classes of the library that a run cannot use, with the reason."""

_NO_SETTINGS = ("collect_stats", "weight_init_func")


def pml_entries(part: str) -> dict[str, Entry]:
    """Name -> entry of the "losses" or "miners" of the library that a run can use; empty if it is not installed."""
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
    """The arguments of a class and those it passes on to its bases by **kwargs, except those that it fixes itself."""
    arguments = [argument for argument in arguments_of(node) if argument.name not in taken]
    taken |= {argument.name for argument in arguments}
    init = constructor_of(node)
    if init is not None:
        if init.args.kwarg is None:
            return arguments
        taken |= _fixed(init)
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            arguments += _settings(classes[base.id], classes, taken)
    return arguments


def _fixed(init: ast.FunctionDef) -> set[str]:
    """The arguments that a constructor passes to its base by name and does not read from its **kwargs."""
    fixed, read = set(), set()
    for node in ast.walk(init):
        match node:
            case ast.Call(func=ast.Attribute(attr="__init__"), keywords=keywords):
                fixed |= {keyword.arg for keyword in keywords if keyword.arg is not None}
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                read.add(name)
    return fixed - read


def _typed(argument: Argument) -> Argument:
    """The argument with the type of its default, as the library annotates few."""
    if argument.default == REQUIRED:
        return Argument(argument.name, argument.type or "int | float", argument.default)
    if argument.default in ("True", "False"):
        return Argument(argument.name, "bool", argument.default)
    is_number = argument.default.lstrip("-")[:1].isdigit()
    return Argument(argument.name, "int | float" if is_number else "", argument.default)
