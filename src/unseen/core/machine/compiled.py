"""Loops compiled by numba, or run as plain Python where numba is not installed.

Import modules with compiled loops where they are used, not at the top of a module: loading the compiler takes a second.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

IS_COMPILED = find_spec("numba") is not None

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile at the first call to machine code that releases the GIL; the code is cached on disk.

    A division by zero is infinite or NaN, as in NumPy.
    """
    return _compile(function, fastmath=set())


def compiled_in_any_order(function: Function) -> Function:
    """`compiled` for sums that may be taken in any order, so that the compiler can take several terms at once."""
    return _compile(function, fastmath={"reassoc", "contract"})


def compiled_for_numbers(function: Function) -> Function:
    """`compiled_in_any_order` for arrays without NaN, so that the compiler can also compare several at once."""
    return _compile(function, fastmath={"reassoc", "contract", "nnan", "nsz"})


def _compile(function: Function, fastmath: set[str]) -> Function:
    if not IS_COMPILED:
        return function
    import numba

    machine_code: Any = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=fastmath or False)(function)
    return machine_code
