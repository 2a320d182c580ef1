"""A network as an ONNX graph, for ONNX Runtime and for other programs."""

import copy
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from unseen.core.errors import ConfigError

INPUT, OUTPUT = "inputs", "embeddings"

# Architectures of which at least one is exported by the tests. Others may well work.
_KNOWN_TO_EXPORT = (
    r"(tf_)?(efficientnet|mobilenetv2)\w*",
    r"(wide_)?(resnet|resnext)\w+",
    r"(vit|deit)_(tiny|small|base|large)_\w+",
    r"convnet|bn_inception|googlenet",
)


def to_onnx(network: nn.Module, example: Tensor) -> bytes:
    """Return the ONNX graph of a network in evaluation mode: one input, one output, any number of rows.

    The graph's input is called `inputs`, its output `embeddings`; the first axis of both is `batch`. The network itself
    is not changed.

    ===========  ======================================================================================
    example      a batch of inputs, of which only the shape and the type matter; the rows may be few
    ===========  ======================================================================================

    Raises:  `ConfigError` when the extra `onnx` is missing, or when the network cannot be exported
    """
    try:
        import onnx  # noqa: F401  # both are torch's exporter's, which names neither in its error
        import onnxscript  # noqa: F401
    except ImportError as problem:
        raise ConfigError(
            f"exporting a network needs {problem.name}, which is not installed", hint="Run pip install 'unseen[onnx]'."
        ) from None
    network = copy.deepcopy(network).cpu().eval()
    # The exporter treats a batch of one row as a constant.
    rows = torch.zeros(2, *example.shape[1:], dtype=example.dtype)
    try:
        with _without_chatter(), torch.no_grad():
            program = torch.onnx.export(
                network,
                (rows,),
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                dynamo=True,
                verbose=False,
            )
            assert program is not None, "the exporter returns a program"
            return bytes(program.model_proto.SerializeToString())
    except Exception as problem:  # tracing runs the network's own code, which may raise anything
        reason = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise ConfigError(f"this network cannot be exported to ONNX: {reason}", hint="Use --engine torch.") from None


def is_known_to_export(architecture: str) -> bool:
    """Return whether an architecture belongs to a family that the tests export.

    >>> is_known_to_export("tf_efficientnet_lite0"), is_known_to_export("resnet50.tv_in1k"), is_known_to_export("wren")
    (True, True, False)
    """
    plain = architecture.partition(".")[0]  # timm appends the name of the weights after a dot
    return any(re.fullmatch(pattern, plain) for pattern in _KNOWN_TO_EXPORT)


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Hide what the exporter says about itself: notes for the authors of operators, not for its users."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
