"""Derived randomness: every draw is a function of (seed, purpose, position), so there is no random state to carry.

A key is a whole number of 63 bits. Whoever needs random numbers is given a key and makes its generator from it.
This is the one file of the package that may touch a global generator.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive(seed: int, purpose: str, *position: int) -> int:
    """The key of one draw: 63 bits of the SHA-256 of seed, purpose and position.

    >>> derive(0, "batch", 3, 7) == derive(0, "batch", 3, 7) != derive(0, "batch", 37)
    True
    """
    text = repr((int(seed), purpose, *map(int, position)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def torch_generator(key: int) -> torch.Generator:
    """A torch generator on the CPU that starts at the key."""
    return torch.Generator().manual_seed(key)


def numpy_generator(key: int) -> np.random.Generator:
    """A NumPy generator that starts at the key; Philox, whose stream is the same on every platform."""
    return np.random.Generator(np.random.Philox(key))


def key_from_torch() -> int:
    """A key for callers who gave none: drawn from torch's global generator, so `torch.manual_seed` governs it."""
    return int(torch.randint(2**62, ()).item())


def seed_torch(key: int) -> None:
    """Set torch's global generators to the key.

    `torch.manual_seed` would, on a machine whose CUDA is not in use, record a traceback at every call.
    """
    torch.default_generator.manual_seed(key)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(key)


@contextmanager
def seeded(key: int) -> Iterator[None]:
    """Let code that can only draw from torch's global generators (layers, dropout, torchvision) draw from the key."""
    with torch.random.fork_rng():
        seed_torch(key)
        yield
