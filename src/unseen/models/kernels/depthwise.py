"""The weight gradient of a depthwise convolution."""

import numpy as np

from unseen.core.machine.compiled import compiled_in_any_order

# So many channels at a time: long loops, and sums for a kernel of 5 x 5 that stay in the first-level cache.
CHANNELS = 256


@compiled_in_any_order
def write_kernel_gradients(
    inputs: np.ndarray,
    gradients: np.ndarray,
    geometry: tuple[int, int, int, int],
    channels: tuple[int, int],
    sums: np.ndarray,
) -> None:
    """Write the gradients of the weights of the channels from the first to before the second of `channels`.

    Those of their biases are written to the last row of `sums`, in its first column.

    Shape:  inputs (n, height, width, c), gradients of the outputs (n, rows, columns, c), geometry (vertical and
            horizontal stride, vertical and horizontal padding), sums (kernel height + 1, kernel width, c)
    """
    count, height, width, _ = inputs.shape
    rows, columns = gradients.shape[1], gradients.shape[2]
    kernel_height, kernel_width = sums.shape[0] - 1, sums.shape[1]
    down, across, top, left = geometry
    blocks = (channels[1] - channels[0] + CHANNELS - 1) // CHANNELS
    total = np.zeros((blocks, kernel_height + 1, kernel_width, CHANNELS), np.float32)
    for item in range(count):  # all channels of an item, while it is in the cache
        for block in range(blocks):
            first = channels[0] + block * CHANNELS
            last = min(first + CHANNELS, channels[1])
            for row in range(rows):
                bias = total[block, kernel_height, 0]
                for column in range(columns):
                    gradient = gradients[item, row, column, first:last]
                    for channel in range(last - first):
                        bias[channel] += gradient[channel]
                for i in range(kernel_height):
                    y = row * down + i - top
                    if y < 0 or y >= height:
                        continue
                    for column in range(columns):
                        gradient = gradients[item, row, column, first:last]
                        for j in range(kernel_width):
                            x = column * across + j - left
                            if x < 0 or x >= width:
                                continue
                            values, of_weight = inputs[item, y, x, first:last], total[block, i, j]
                            for channel in range(last - first):
                                of_weight[channel] += values[channel] * gradient[channel]
    for block in range(blocks):
        first = channels[0] + block * CHANNELS
        last = min(first + CHANNELS, channels[1])
        sums[:, :, first:last] = total[block, :, :, : last - first]
