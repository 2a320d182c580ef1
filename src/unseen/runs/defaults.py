"""Default settings of a run by kind of data and depth of training, and the measurements behind them."""

from unseen.core.config import Record
from unseen.data import Catalogue, FeatureArray

# The measurements are in docs/results.md: recall@1 on held-out training classes of CUB-200.
# A linear head on fixed features overfits soon. Started by discriminant analysis and trained on proxies at a small rate
# it stays ahead of its start; multi-similarity gained nothing or lost.
_HEAD_ONLY: Record = {
    "head": "lda",
    "loss": "proxy_anchor",
    "optimizer": "adam:lr=2e-5",
    "epochs": 20,
    "patience": 5,
}

# Stages above a cut overfit soon on plain images and less on augmented views; with a moving average
# of the weights recall still rose in the last epochs, where it fell without one.
_UPPER_STAGES: Record = {
    "head": "whitening",
    "optimizer": "adam:lr=5e-5",
    "transform": "crop:size=224,scale_low=0.2",
    "views": 4,
    "epochs": 6,
    "average": 0.98,
}

# A whole pretrained backbone: the settings of the upper stages, as every visit of an image is a new view.
# Training crops are smaller than those of the evaluation, which halves the time of a step.
_FINE_TUNING: Record = _UPPER_STAGES | {
    "transform": "crop:size=224,train_size=160,scale_low=0.2",
    "views": 1,
}

_COMMON: Record = {
    "protocol": None,
    "views": 1,
    "head": "random",
    "batch_norm": "auto",
    "transform": None,
    "loss": "multi_similarity",
    "method": "plain",
    "sampler": "samples_per_class:batch_size=112,per_class=4",
    "schedule": "cosine",
    "head_epochs": 0,
    "epochs": 20,
    "head_lr": None,
    "average": None,
    "blend": None,
    "clip_gradients": None,
    "autocast": False,
    "compile": False,
    "engine": "auto",
    "choose_by": "recall@1",
    "choose_on": "validation",
    "patience": None,
    "seed": 0,
}

_IMAGE_FILES: Record = {
    "model": "lite0",
    "embedding_size": 512,
    "transform": "crop:size=224",
    "optimizer": "adam:lr=1e-4",
    "epochs": 10,
}


def defaults_for(catalogue: Catalogue, depth: str | None = None, *, is_pretrained: bool = True) -> Record:
    """Default settings for a kind of data: they fit a laptop, and validate on held-out classes.

    Image files are trained at `top`, as their default backbone is pretrained; other data, and a backbone that is not
    pretrained, at `full`.
    """
    is_files = catalogue.reader.kind == "image files"
    depth_of_run = depth or ("top" if is_files and is_pretrained else "full")
    split = "given" if catalogue.fixed_split is not None else "fraction"
    common = _COMMON | {"split": split, "depth": depth_of_run}
    if is_files:
        by_depth = {"top": _UPPER_STAGES, "frozen": _HEAD_ONLY}
        return common | _IMAGE_FILES | by_depth.get(depth_of_run, _FINE_TUNING if is_pretrained else {})
    if isinstance(catalogue.reader, FeatureArray):
        width = catalogue.reader.features.shape[1]
        return common | {"model": "identity", "embedding_size": min(512, width)} | _HEAD_ONLY
    head = _HEAD_ONLY if depth == "frozen" else {"optimizer": "adam:lr=2e-3"}
    return common | {"model": "convnet", "embedding_size": 128} | head
