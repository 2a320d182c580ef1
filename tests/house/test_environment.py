"""No parameter of ours comes through an environment variable."""

import ast

import pytest

from tests.house.source import MODULES

ALLOWED = {
    "core/faults.py": "UNSEEN_FAULT makes a crash test's process die at a named point",
    "core/processes.py": "thread counts of child processes",
    "studies/executors/local.py": "thread counts of child processes",
}
"""Files that may touch the environment, with the reason."""

FOR_LIBRARIES = {"CUBLAS_WORKSPACE_CONFIG"}
"""Variables of other libraries that any file may set a default for."""


def uses(tree: ast.AST) -> list[str]:
    """Every access to the environment, as source."""
    found: list[str] = []
    allowed: set[ast.AST] = set()
    for node in ast.walk(tree):  # from the outside inwards: a call before the `os.environ` in it
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "os.environ.setdefault":
            name = node.args[0]
            if isinstance(name, ast.Constant) and name.value in FOR_LIBRARIES:
                allowed |= set(ast.walk(node))
        if node in allowed:
            continue
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv", "os.putenv"):
            found.append(ast.unparse(node))
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            found += [alias.name for alias in node.names if "env" in alias.name]
        if isinstance(node, ast.keyword) and node.arg == "envvar":
            found.append("typer's envvar")
    return found


def test_no_file_reads_a_parameter_from_the_environment():
    assert {path: found for path, tree in MODULES.items() if (found := uses(tree)) and path not in ALLOWED} == {}


def test_every_exception_is_needed():
    assert {path for path, tree in MODULES.items() if uses(tree)} >= ALLOWED.keys()


@pytest.mark.parametrize(
    "code", ["os.environ['A']", "os.environ.get('A')", "os.getenv('A')", "from os import environ", "f(envvar='A')"]
)
def test_the_rule_itself_finds(code):
    assert uses(ast.parse(code))
