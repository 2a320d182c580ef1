"""A backbone compiled by torch: fewer passes over memory, after a minute or more of compiling."""

from types import TracebackType

import torch

from unseen.core.errors import ConfigError
from unseen.models.backbone import Backbone

_HINT = "Install g++ and the headers of Python, or train without --compile."


class CompiledBackbone:
    """A context in which a backbone runs compiled; it can be entered again and again, the first pass compiles.

    Outside of it the backbone is as it was: its parameters, and so checkpoints, are those of the plain one.

    Raises:  `ConfigError` if the compiler fails
    """

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self._forward = torch.compile(backbone.forward, dynamic=False)

    def __enter__(self) -> None:
        vars(self._backbone)["forward"] = self._forward  # hides the method of its class

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        del vars(self._backbone)["forward"]
        if problem is not None and _is_of_the_compiler(problem):
            words = str(problem).strip().splitlines()
            raise ConfigError(f"the model cannot be compiled ({words[0] if words else kind})", hint=_HINT) from None


def check_compiler(device: torch.device) -> None:
    """Refuse to compile for a CPU where there is no C++ compiler.

    Raises:  `ConfigError` if there is none
    """
    if device.type != "cpu":
        return
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError):
        raise ConfigError("to compile a model takes a C++ compiler, and there is none", hint=_HINT) from None


def _is_of_the_compiler(problem: BaseException) -> bool:
    from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException

    return isinstance(problem, BackendCompilerFailed | TorchDynamoException)
