"""Pretrained weights from files, read as tensors and never as code."""

import re
import urllib.request
from collections.abc import Container, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from unseen.core.checks import check_choice
from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest

_WRAPPERS = ("state_dict", "model", "model_state_dict", "net")
_PREFIXES = ("module.", "backbone.", "model.", "encoder.")
_SUFFIXES = (".pth", ".pt", ".bin", ".tar", ".ckpt")
# Old DenseNet files of torchvision have norm.1 instead of norm1.
_OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|conv))\.(?=[12]\.)")
# A server that does not answer within this time counts as unreachable.
ANSWER_SECONDS = 5.0


def check_weights_file(path: Path) -> None:
    """Raise `DataError` if the weights file does not exist."""
    if not path.is_file():
        raise DataError(f"no weights file {path}", hint="A local .safetensors or .pth file is needed.")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the named tensors of a .safetensors or .pth file; a file that contains code is refused."""
    check_weights_file(path)
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError) as problem:
            raise DataError(f"{path} is not a readable safetensors file: {problem}") from None
    if path.suffix not in _SUFFIXES:
        raise DataError(f"cannot read weights from '{path.name}'", hint="A .safetensors or .pth file is needed.")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # many kinds; all of them mean that the file does not hold plain tensors
        reason = str(problem).strip().split("\n")[0][:200]
        raise DataError(f"{path} does not hold plain tensors and was not loaded: {reason}") from None
    for wrapper in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict) or not content:
        raise DataError(f"{path} does not hold a mapping of named tensors", got=type(content).__name__)
    return {name: tensor for name, tensor in content.items() if isinstance(tensor, Tensor)}


def load_weights(module: nn.Module, weights: dict[str, Tensor], source: str) -> None:
    """Copy weights into a module by name; a missing tensor is an error.

    Common prefixes (`module.`, `backbone.`) are stripped, and tensors that the module does not have (a classifier) are
    ignored. Old files lack batch norm's step counters, which then stay at 0.
    """
    wanted = module.state_dict()
    stripped = {strip_prefixes(_OLD_DENSENET.sub(r"\1", name), wanted): tensor for name, tensor in weights.items()}
    missing = [name for name in wanted if name not in stripped and not name.endswith(".num_batches_tracked")]
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


def strip_prefixes(name: str, wanted: Container[str]) -> str:
    """Remove the prefixes of wrapper modules from a tensor's name, as far as the name is not wanted with them."""
    for prefix in _PREFIXES:
        if name not in wanted and name.startswith(prefix):
            name = name.removeprefix(prefix)
    return name


def download(address: str, sha256: str, *, hint: str) -> Path:
    """Return the local copy of a published file in torch's folder of weights, downloaded if it is not there.

    Raises:  `ConfigError`, within seconds, if the server is unreachable or the checksum is wrong
    """
    path = Path(torch.hub.get_dir()) / "checkpoints" / address.rpartition("/")[2]
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # The download itself would wait for minutes for an unreachable server.
            urllib.request.urlopen(address, timeout=ANSWER_SECONDS).close()  # noqa: S310 - our own constants
            torch.hub.download_url_to_file(address, str(path), hash_prefix=sha256, progress=False)
        except (OSError, RuntimeError) as problem:  # unreachable; wrong checksum
            raise ConfigError(f"{address} could not be downloaded: {problem}", hint=hint) from None
    return path


def check_weights_settings(owner: str, weights: str | None, pretrained: str | None, known: Sequence[str]) -> None:
    """Check that at most one of `weights` and `pretrained` is set, and the latter to a known value."""
    check_choice(owner, "pretrained", pretrained, (*known, None))
    if weights is not None and pretrained is not None:
        raise ConfigError(f"{owner}: weights and pretrained were both given", hint="Set only one of them.")


def weights_file(name: str, weights: str | None, pretrained: str | None, *, address: str, sha256: str) -> Path | None:
    """Return the weights file of a backbone: a local one, the published one for "hub", None for random weights."""
    check_weights_settings(name, weights, pretrained, ("hub",))
    if pretrained is not None:
        return download(address, sha256, hint=f"Set a local file: {name}:weights=FILE.")
    return None if weights is None else Path(weights)
