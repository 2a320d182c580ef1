"""Types of the arrays that compiled loops take."""

import numpy as np
from numpy.typing import NDArray

Float32s = NDArray[np.float32]
Float64s = NDArray[np.float64]
Int32s = NDArray[np.int32]
Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]
