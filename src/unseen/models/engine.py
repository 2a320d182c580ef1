"""The inference engine: a network in evaluation mode and a stream of batches become rows.

Everything that embeds with fixed weights goes through here: `embed`, the caches of the depths `top` and `frozen`,
validation, and the evaluation of runs.
"""

import importlib.util
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from unseen.core.checks import check_choice
from unseen.core.errors import ConfigError
from unseen.core.machine.memory import keep_freed_memory
from unseen.data.batches import CatalogueDataset, ItemKey, ThreadLoader, make_loader
from unseen.models.folding import folded
from unseen.models.onnx_graph import INPUT, OUTPUT, to_onnx

EngineName = Literal["torch", "onnx"]
EngineChoice = Literal["auto", "torch", "onnx"]
ENGINES = ("auto", "torch", "onnx")

# The two engines agree to this share of the length of an embedding, in each of its numbers.
TOLERANCE = 1e-4

# Numbers in the inputs of one step of a thread: 16 images of 160 x 160. Larger steps are not faster, and hold more
# memory.
_STEP_NUMBERS = 16 * 3 * 160 * 160
_FEWEST_ROWS, _MOST_ROWS = 8, 256
_MOST_THREADS = 16
# Numbers in the inputs from which ONNX Runtime wins back the seconds of the conversion: 6,000 images of 160 x 160.
_WORTH_CONVERTING = 6_000 * 3 * 160 * 160

CPU = torch.device("cpu")
Compute = Callable[[Tensor], Tensor]


class Engine:
    """Computes the outputs of a network as it is now, in evaluation mode; later changes of the network do not show.

    =========  ==============================================================================================
    "torch"    a copy of the network in channels_last with batch norm folded into convolutions
    "onnx"     ONNX Runtime on the CPU, with the extra `onnx`; equal to "torch" within 1e-4 of a row's length
    "auto"     "onnx" if it is installed, there is no GPU and the images are many enough to win back the seconds of
               the conversion, else "torch"; also "torch" for a network that cannot be converted
    =========  ==============================================================================================

    Rows of features, and networks on a GPU, are computed by torch in any case. Neither the network nor its training
    mode changes. The rows of a batch depend on the batch and on the machine, not on the batches before it.
    """

    def __init__(self, network: nn.Module, name: EngineChoice = "auto") -> None:
        self.network, self.name = network, check_engine(name)
        self._device = device_of(network)
        self._computes: dict[tuple[int, ...], Compute] = {}  # by the shape of an input

    def rows(
        self, dataset: CatalogueDataset, batches: Sequence[Sequence[ItemKey]], *, workers: int = 0
    ) -> Iterator[Tensor]:
        """Yield the outputs of each batch, float32 on the CPU, while the next batches are loaded."""
        if not batches:
            return
        if self._device.type == "cpu":
            keep_freed_memory()
        example = dataset[batches[0][0]].inputs
        shape = tuple(example.shape[1:])
        if shape not in self._computes:
            self._computes[shape] = self._prepare(example, sum(map(len, batches)))
        compute = partial(_in_steps, self._computes[shape], rows_per_step(shape, self._device))
        loader = make_loader(dataset, batches, workers=workers)
        if self._device.type != "cpu" or len(shape) < 2:
            yield from (compute(batch.inputs) for batch in loader)
        elif workers:
            yield from _in_threads(_Outputs(lambda keys: compute(keys[0])), ([batch.inputs] for batch in loader))
        else:
            yield from _in_threads(_Outputs(lambda keys: compute(dataset.__getitems__(keys).inputs)), batches)

    def _prepare(self, example: Tensor, count: int) -> Compute:
        name = self.name
        if example.ndim < 3 or self._device.type != "cpu":
            name = "torch"
        elif name == "auto":
            name = fastest_engine(count, tuple(example.shape[1:]))
        if name == "onnx":
            try:
                return _onnx_compute(self.network, example)
            except ConfigError:
                if self.name == "onnx":
                    raise
        return _torch_compute(self.network, example.to(self._device))


class _Outputs(NamedTuple):
    """A data set of outputs: what one thread computes of a batch, or loads and computes."""

    compute: Callable[[Sequence[Any]], Tensor]
    is_in_memory: bool = False

    def __getitems__(self, keys: Sequence[Any]) -> Tensor:
        return self.compute(keys)


def _in_threads(outputs: _Outputs, batches: Iterable[Sequence[Any]]) -> Iterator[Tensor]:
    """Yield the outputs of each batch, each computed by one of several threads that do not wait for each other.

    Threads that share every operation of one batch wait at the end of each for the slowest, which is the one whose core
    is decoding.
    """
    cores = torch.get_num_threads()
    threads = min(cores, _MOST_THREADS)

    def use_own_core() -> None:
        # Holds for the calling thread, and for threads that are started later: restored below.
        torch.set_num_threads(cores // threads)

    try:
        yield from ThreadLoader(outputs, batches, threads, use_own_core)
    finally:
        torch.set_num_threads(cores)


def _in_steps(compute: Compute, size: int, inputs: Tensor) -> Tensor:
    with torch.inference_mode():
        outputs = [compute(step) for step in inputs.split(size)]
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def rows_per_step(shape: Sequence[int], device: torch.device) -> int:
    """Return how many inputs of this shape go through a network at once.

    >>> [rows_per_step((3, size, size), torch.device("cpu")) for size in (32, 160, 224, 448)]
    [256, 16, 8, 8]
    """
    if device.type != "cpu":
        return _MOST_ROWS
    affordable = _STEP_NUMBERS // max(math.prod(shape), 1)
    return min(max(2 ** (max(affordable, 1).bit_length() - 1), _FEWEST_ROWS), _MOST_ROWS)


def check_engine(name: str) -> EngineChoice:
    """Return the name of an engine that can be used here.

    Raises:  `ConfigError` for an unknown name, and for an engine that is not installed
    """
    check_choice("embed", "engine", name, ENGINES)
    if name == "onnx" and not has_onnx():
        raise ConfigError("engine onnx is not installed", hint="Run pip install 'unseen[onnx]', or use --engine torch.")
    return cast(EngineChoice, name)


def has_onnx() -> bool:
    """Return whether the libraries of the extra `onnx` are installed."""
    return all(importlib.util.find_spec(library) is not None for library in ("onnxruntime", "onnx", "onnxscript"))


def fastest_engine(count: int, shape: tuple[int, ...]) -> EngineName:
    """Return the engine that computes so many inputs of a shape first, with the time of the conversion."""
    if len(shape) < 2 or count * math.prod(shape) < _WORTH_CONVERTING or torch.cuda.is_available():
        return "torch"
    return "onnx" if has_onnx() else "torch"


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network's parameters, the CPU if it has none."""
    return next((parameter.device for parameter in network.parameters()), CPU)


def _torch_compute(network: nn.Module, example: Tensor) -> Compute:
    fast = folded(network, example).to(memory_format=torch.channels_last)
    device = device_of(network)

    def compute(inputs: Tensor) -> Tensor:
        outputs: Tensor = fast(inputs.to(device))
        return outputs.float().cpu()

    return compute


def _onnx_compute(network: nn.Module, example: Tensor) -> Compute:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # each of our threads runs it for itself
    options.log_severity_level = 3
    graph = to_onnx(folded(network, example), example)
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def compute(inputs: Tensor) -> Tensor:
        # It is as fast with small steps, and faster for transformers.
        steps = [np.ascontiguousarray(step.numpy()) for step in inputs.split(_FEWEST_ROWS)]
        outputs = [session.run([OUTPUT], {INPUT: step})[0] for step in steps]
        return torch.from_numpy(np.concatenate(outputs))

    return compute
