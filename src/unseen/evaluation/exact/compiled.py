"""Loops compiled by numba where it is installed; without it the same functions are plain Python."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

IS_COMPILED = find_spec("numba") is not None

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The function as machine code that runs without Python's lock; compiled at its first call, then kept on disk."""
    if not IS_COMPILED:
        return function
    import numba

    machine_code: Any = numba.njit(nogil=True, cache=True)(function)
    return machine_code


def compiled_in_any_order(function: Function) -> Function:
    """The same for sums that are exact in any order, which are then added up many at a time."""
    if not IS_COMPILED:
        return function
    import numba

    machine_code: Any = numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})(function)
    return machine_code
