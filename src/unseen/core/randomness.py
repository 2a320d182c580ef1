"""Derived randomness: every draw is a function of (seed, purpose, position), so there is no random state to store.

A key is an integer of 63 bits. Code that needs random numbers takes a key and makes a generator from it.
This is the only file of the package that may touch a global generator.
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
    """A torch generator on the CPU, seeded by the key."""
    return torch.Generator().manual_seed(key)


def numpy_generator(key: int) -> np.random.Generator:
    """A NumPy generator seeded by the key; Philox, whose stream is the same on every platform."""
    return np.random.Generator(np.random.Philox(key))


def key_from_torch() -> int:
    """A key where the caller passed none, drawn from torch's global generator: `torch.manual_seed` fixes it."""
    return int(torch.randint(2**62, ()).item())


def seed_torch(key: int) -> None:
    """Seed torch's global generators.

    `torch.manual_seed` would record a traceback at every call where CUDA is available but not initialized.
    """
    torch.default_generator.manual_seed(key)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(key)


@contextmanager
def seeded(key: int) -> Iterator[None]:
    """Seed torch's global generators for a block of code that has no other (layers, dropout, torchvision)."""
    with torch.random.fork_rng():
        seed_torch(key)
        yield
