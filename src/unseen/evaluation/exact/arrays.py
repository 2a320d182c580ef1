"""Names for the array types of the evaluation."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Float32s: TypeAlias = NDArray[np.float32]
Int32s: TypeAlias = NDArray[np.int32]
Int8s: TypeAlias = NDArray[np.int8]
Booleans: TypeAlias = NDArray[np.bool_]
