"""Signatures stay small and typed: few arguments beyond a component's settings, few `Any` in public ones."""

import ast
from collections import Counter

from tests.house.source import MODULES, Function, functions
from unseen.core.registry import REGISTRIES

MOST_ARGUMENTS = 6

MORE_ARGUMENTS = {
    "evaluation/evaluate.py:evaluate": "a front door; its arguments are settings that people state by name",
    "evaluation/failures.py:failures": "a front door; its arguments are settings that people state by name",
    "evaluation/pml_compat.py:AccuracyCalculator.get_accuracy": "the signature of pytorch-metric-learning",
    "pairs/functional/exponentials.py:_LogSumExp.forward": "torch's autograd functions take their inputs one by one",
}
"""Functions that may take more arguments, with the reason."""

MOST_ANY = {"core": 3, "evaluation": 1}
"""Ceiling of `Any` in public signatures, by package; 0 for all others. Who removes one lowers the number here."""


def is_registered(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether a registry's decorator stands above it."""
    calls = [decorator.func for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    return any(isinstance(call, ast.Name) and call.id in {*REGISTRIES, "analysis"} for call in calls)


def settings_of(tree: ast.Module) -> set[str]:
    """The constructor arguments of the components that a module registers."""
    constructors = [
        method
        for node in tree.body
        if isinstance(node, ast.ClassDef) and is_registered(node)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    ]
    return {argument.arg for method in constructors for argument in [*method.args.args, *method.args.kwonlyargs]}


def is_exempt(function: Function) -> bool:
    """Constructors, registered functions and commands: their arguments are settings that people state by name."""
    return function.node.name == "__init__" or is_registered(function.node) or function.path.startswith("cli/")


def test_no_function_takes_more_than_six_arguments_that_are_no_settings():
    too_many = {}
    for function in functions():
        settings = settings_of(MODULES[function.path])
        counted = [argument.arg for argument in function.arguments if argument.arg not in settings]
        if len(counted) > MOST_ARGUMENTS and not is_exempt(function):
            too_many[f"{function.path}:{function.qualified_name}"] = len(counted)
    assert {name: count for name, count in too_many.items() if name not in MORE_ARGUMENTS} == {}
    assert MORE_ARGUMENTS.keys() <= too_many.keys(), "an exception that is not needed any more"


def any_count() -> Counter[str]:
    """Uses of `Any` in the annotations of public functions, by package."""
    counts: Counter[str] = Counter()
    for function in functions():
        if not function.is_public:
            continue
        arguments = function.node.args
        extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
        annotations = [argument.annotation for argument in [*function.arguments, *extra]] + [function.node.returns]
        for annotation in annotations:
            if annotation is not None:
                names = [node for node in ast.walk(annotation) if isinstance(node, ast.Name) and node.id == "Any"]
                counts[function.path.split("/")[0]] += len(names)
    return +counts


def test_any_is_rare_in_public_signatures():
    assert {package: count for package, count in any_count().items() if count > MOST_ANY.get(package, 0)} == {}
