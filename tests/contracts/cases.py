"""How a contract finds the case of a registered component."""

from collections.abc import Mapping
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def case_of(cases: Mapping[str, Case], name: str, file: str) -> Case:
    """The case of a component; a component without one fails its contract."""
    if name not in cases:
        pytest.fail(f"'{name}' is registered and has no case in its contract. Add one to CASES in {file}.")
    return cases[name]
