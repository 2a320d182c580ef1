"""Small batches on the CPU: where compiled loops take over from operators, and the arrays that they work on.

Up to a few hundred samples, calling an operator takes longer than its numbers. There a building block runs one compiled
loop in float32; everything else (larger, float64, on a GPU, without the compiler) takes the operators, and tests
compare the two.
"""

import numpy as np
import torch
from torch import Tensor

from unseen.core.machine.compiled import IS_COMPILED
from unseen.pairs.kernels.arrays import Bytes, Float32s

SMALL = 2**17
"""Up to so many numbers."""

FLOAT32 = (torch.float32,)


def is_small(values: Tensor, *kinds: torch.dtype) -> bool:
    """Whether compiled loops take this tensor of one of these kinds (float32 unless stated).

    Subclasses, such as fake tensors, have no memory to loop over.
    """
    return (
        IS_COMPILED
        and values.dtype in (kinds or FLOAT32)
        and values.is_cpu
        and values.numel() <= SMALL
        and type(values) is Tensor
        and not torch.compiler.is_compiling()
    )


def floats(values: Tensor) -> Float32s:
    """The numbers of a float32 tensor as an array on the same memory, if that is contiguous."""
    return values.detach().contiguous().numpy()


def flags(mask: Tensor) -> Bytes:
    """The entries of a boolean tensor as bytes on the same memory, if that is contiguous."""
    return mask.contiguous().numpy().view(np.uint8)
