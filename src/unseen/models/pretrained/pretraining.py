"""What a model's weights were pretrained on, in words: numbers of different pretraining are not ranked together."""

from collections.abc import Mapping

from unseen.models.pretrained.backbone_facts import packaged_weights

UNTRAINED = "nothing"
IMAGENET = "ImageNet-1k"


def pretraining_of(model: Mapping[str, object]) -> str:
    """Return what the weights of a model's complete record were trained on before.

    >>> pretraining_of({"name": "timm", "architecture": "tf_efficientnet_lite0", "pretrained": "lite0"})
    'ImageNet-1k'
    >>> pretraining_of({"name": "convnet"})
    'nothing'
    """
    members = model.get("backbones")
    if isinstance(members, list):
        return " + ".join(dict.fromkeys(map(pretraining_of, members)))
    pretrained = model.get("pretrained")
    if pretrained in packaged_weights():
        return packaged_weights()[str(pretrained)].pretraining
    if pretrained == "hub":
        return _published(str(model.get("architecture", ""))) if model["name"] == "timm" else IMAGENET
    return UNTRAINED if model.get("weights") is None else "not stated: weights of a local file"


def _published(architecture: str) -> str:
    """Return what timm's published weights were trained on, as far as the name of the weights says it."""
    import timm

    settings = timm.models.get_pretrained_cfg(architecture)
    tag = "" if settings is None else str(settings.tag or "")
    # A tag ends with the images: "a1_in1k"; "augreg_in21k_ft_in1k" was trained on others before.
    is_imagenet = tag.split("_")[-1] == "in1k" and "_ft_" not in tag
    return IMAGENET if is_imagenet else f"timm's weights {tag or architecture}"
