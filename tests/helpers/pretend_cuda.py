"""Tensors that say they are on a GPU and refuse to meet tensors that are not, with their values in ordinary memory.

torch's fake tensors find mixed devices too, but they have no values, so code that looks at some (`.item()`, a mask as
an index) cannot run on them, and without a GPU they have no backward pass. These tensors have both.

    with pretended_cuda():
        embeddings = embeddings.to("cuda")
        loss(embeddings, labels.to("cuda")).backward()

torch's own code sees the device `meta`, which needs no driver; Python code sees `cuda:0`. As on a GPU, tensors without
dimensions may meet those of the other side, rows may be selected by indices from the CPU, `.numpy()` is refused, and a
generator of the CPU draws nothing for the GPU. Where torch must be deterministic, operators that its documentation says
have no deterministic form on CUDA are refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

CUDA, CARRIER = torch.device("cuda:0"), torch.device("meta")
_aten = torch.ops.aten
_MOVES = {_aten._to_copy.default, _aten.copy_.default}
_INDEXES = {_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default, _aten._index_put_impl_.default}
_NOT_DETERMINISTIC = {
    *("adaptive_max_pool2d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward"),
    *(
        "avg_pool3d_backward",
        "embedding_bag_backward",
        "grid_sampler_2d_backward",
        "histc",
        "median.dim",
        "put",
        "put_",
    ),
    *("nll_loss2d_forward", "reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward"),
    *("scatter_reduce", "scatter_reduce_", "upsample_linear1d_backward", "upsample_bilinear2d_backward"),
    *("upsample_bicubic2d_backward", "upsample_trilinear3d_backward"),
}
"""Operators as `torch.use_deterministic_algorithms` lists them, for torch 2.15; and `bincount` with weights."""
_FROM_DATA = {torch.tensor, torch.as_tensor, torch.asarray}


class WrongDevice(RuntimeError):
    """What a GPU would refuse."""


class NotDeterministic(RuntimeError):
    """What a GPU refuses in a training run."""


class OnCuda(Tensor):
    """A tensor that says it is on the first GPU."""

    value: Tensor

    @staticmethod
    def __new__(cls, value: Tensor) -> "OnCuda":
        made = Tensor._make_wrapper_subclass(
            cls,
            value.size(),
            strides=value.stride(),
            storage_offset=value.storage_offset(),
            dtype=value.dtype,
            device=CARRIER,
        )
        made.value = value
        return made

    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_meta = property(lambda self: False)

    def numpy(self, *, force: bool = False) -> Any:
        raise WrongDevice("a tensor on cuda:0 was converted to NumPy")

    __array__ = numpy  # type: ignore[assignment]

    def tolist(self) -> Any:
        return self.value.tolist()

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"OnCuda({self.value!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # type: ignore[override]
        return _run(func, args, kwargs or {})


def _run(func, args, kwargs):
    """Run an operator on the values, and refuse it where a GPU would."""
    tensors = [item for item in tree_flatten((args, kwargs))[0] if isinstance(item, Tensor)]
    carried = [tensor for tensor in tensors if isinstance(tensor, OnCuda)]
    asked = kwargs.get("device")
    is_cuda = bool(carried) if asked is None else torch.device(asked) == CARRIER
    if func in _MOVES:
        is_cuda = isinstance(args[0], OnCuda) if func is _aten.copy_.default else is_cuda
    elif carried:
        ordinary = [tensor for tensor in tensors if not isinstance(tensor, OnCuda) and tensor.dim() > 0]
        if ordinary and not (func in _INDEXES and isinstance(args[0], OnCuda)):
            raise WrongDevice(
                f"{func} met tensors on cuda:0 and on cpu, the latter of shape {tuple(ordinary[0].shape)}"
            )
    if is_cuda and kwargs.get("generator") is not None:
        raise WrongDevice(f"{func} draws on cuda:0 from a generator of the cpu")
    if is_cuda and torch.are_deterministic_algorithms_enabled():
        _check_deterministic(func, args, kwargs)
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    originals = {id(tensor.value): tensor for tensor in carried}

    def wrapped(item):
        if not isinstance(item, Tensor) or not is_cuda:
            return item
        # What was changed in place stays the same tensor.
        known = originals.get(id(item))
        return OnCuda(item) if known is None else known

    args, kwargs = tree_map(lambda item: item.value if isinstance(item, OnCuda) else item, (args, kwargs))
    return tree_map(wrapped, func(*args, **kwargs))


def _check_deterministic(func, args, kwargs):
    name, overload = func.__name__.split(".")
    is_weighted = name == "bincount" and (kwargs.get("weights") is not None or args[1:2] not in ((), (None,)))
    is_reduced = name.startswith("scatter_reduce") and args[4] in ("sum", "mean")
    if is_weighted or (not is_reduced and {name, f"{name}.{overload}"} & _NOT_DETERMINISTIC):
        raise NotDeterministic(f"{func} has no deterministic form on cuda:0")


class _Operators(TorchDispatchMode):
    """Operators without a pretended argument: what is made on the pretended device, and moves to and from it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class _Requests(TorchFunctionMode):
    """Calls that name the device `cuda`, which torch would try to initialise."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is Tensor.cuda:
            return args[0].to(CARRIER)
        if func is Tensor.new_tensor and isinstance(args[0], OnCuda) and kwargs.get("device") is None:
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype, **kwargs}).to(CARRIER)
        if func in _FROM_DATA and _is_cuda(kwargs.get("device")):
            return func(*args, **{**kwargs, "device": None}).to(CARRIER)
        # Shallow: devices are arguments of their own.
        args = tuple(CARRIER if _is_cuda(argument) else argument for argument in args)
        kwargs = {name: CARRIER if _is_cuda(argument) else argument for name, argument in kwargs.items()}
        return func(*args, **kwargs)


def _is_cuda(argument: object) -> bool:
    if isinstance(argument, torch.device):
        return argument.type == "cuda"
    return isinstance(argument, str) and argument.split(":")[0] == "cuda"


@contextmanager
def pretended_cuda() -> Iterator[None]:
    """A block of code in which there is a GPU to move tensors to."""
    # A module that is moved keeps its parameters, as on a GPU: an optimiser may hold them already.
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with _Requests(), _Operators():
            yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swaps)
