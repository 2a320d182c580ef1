"""ONNX graphs with 8-bit integer weights and, where it pays, 8-bit activations."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from unseen.models.onnx_graph import INPUT


def quantize(graph: bytes, calibration: Iterable[np.ndarray] | None) -> bytes:
    """Return an ONNX graph with int8 weights, one scale per output channel.

    ============  ===============================================================================================
    calibration   batches of inputs from which the ranges of activations are taken, which then are int8 too (for
                  convolutional networks); None leaves activations as they are outside of matrix products, and takes
                  their ranges from each input (for transformers, whose activations have outliers)
    ============  ===============================================================================================
    """
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with TemporaryDirectory() as folder:
        plain, prepared, quantized = (Path(folder) / f"{name}.onnx" for name in ("plain", "prepared", "quantized"))
        plain.write_bytes(graph)
        # Fuses batch norm into convolutions, among others: what is fused is rounded once.
        quant_pre_process(plain, prepared, skip_symbolic_shape=True)
        if calibration is None:
            _forget_shapes(prepared)
            quantize_dynamic(prepared, quantized, per_channel=True, weight_type=QuantType.QInt8)
        else:
            quantize_static(
                prepared,
                quantized,
                _Reader(iter(calibration)),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )
        return quantized.read_bytes()


def _forget_shapes(path: Path) -> None:
    """Remove the shapes of intermediate results: weights that are transposed on quantization would contradict them."""
    import onnx

    model = onnx.load(path)
    del model.graph.value_info[:]
    onnx.save(model, path)


class _Reader:
    """Calibration batches as ONNX Runtime asks for them."""

    def __init__(self, batches: Iterator[np.ndarray]) -> None:
        self.batches = batches

    def get_next(self) -> dict[str, Any] | None:
        batch = next(self.batches, None)
        return None if batch is None else {INPUT: batch}
