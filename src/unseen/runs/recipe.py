"""A recipe: everything that decides a run's numbers, complete, checked and hashed."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from unseen.core.checks import check_above, check_choice, check_count
from unseen.core.config import Record, as_record, build, complete, hash_of
from unseen.core.errors import ConfigError
from unseen.core.registry import REGISTRIES, nearest
from unseen.data import Catalogue, Split, load_catalogue, split_catalogue
from unseen.evaluation.score_table import read_names
from unseen.models import default_cut, input_normalization, model_record
from unseen.models.heads import HEAD_INITS
from unseen.models.weights import check_weights_file
from unseen.runs.named_recipes import load_recipe
from unseen.runs.protocols import load_protocol

DEPTHS = ("full", "top", "frozen")

# A linear head on fixed features over-fits soon. CUB-200, features of EfficientNet-Lite0 at 160 pixels, 512 dimensions:
# 50 of the 100 training classes train, the other 50 judge. Their recall@1 after 10 epochs (more in docs/results.md):
#                        start   margin   multi-similarity   proxy anchor   ArcFace
#     identity,  3e-5    71.0    72.8     71.9               72.2           71.9
#     identity,  1e-4    71.0    71.4     70.0               70.3           69.0
#     whitening, 3e-5    70.0    71.8     71.8               71.1           71.6
#     whitening, 1e-4    70.0    71.4     71.9               71.6           71.3
#     identity,  3e-4    71.0    69.6     67.0               67.9           64.0    below the start
_A_HEAD_ALONE: Record = {"head": "identity", "optimizer": "adam:lr=3e-5", "epochs": 10, "patience": 5}

# Stages above a cut over-fit soon on plain images and less on augmented views. The same classes as above,
# EfficientNet-Lite0 from blocks.5 on, start 70.1; recall@1 after 3 epochs (more in docs/results.md):
#                         margin   multi-similarity   proxy anchor   softmax
#     3 views, lr 5e-5    74.1     74.0               73.0           73.2
#     3 views, lr 1e-4    73.4
#     3 views, lr 2e-5             72.6
#     1 view,  lr 1e-4             71.2               72.6
#     1 view,  lr 4e-4                                66.9    below the start
_STAGES_ABOVE_A_CUT: Record = {
    "head": "whitening",
    "optimizer": "adam:lr=5e-5",
    "transform": "crop:size=160,scale_low=0.2",
    "views": 3,
    "epochs": 4,
}

# A whole pretrained backbone: the settings of the stages above a cut, as every visit of an image is a new view.
# CUB-200, EfficientNet-Lite0, all training classes, multi-similarity: recall@1 on the test classes 53.0 after 3 epochs,
# against 51.1 at `top` and 46.5 before training. Other settings were not tried at this depth (docs/results.md).
_FINE_TUNING: Record = {
    "head": "whitening",
    "optimizer": "adam:lr=5e-5",
    "transform": "crop:size=160,scale_low=0.2",
    "epochs": 3,
}

# What a run knows itself and nobody has to state.
_KNOWN_BY_THE_RUN: Record = dict.fromkeys(
    ("num_classes", "embedding_size", "input_shape", "channels", "size", "seed"), None
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of one run; two runs with equal recipes give equal numbers.

    ================  ====================================================================================
    protocol          the paper whose settings stand under those that were stated; None for none
    depth             "full" trains the whole model; "top" the backbone from the stage `cut` on and the head, over
                      cached activations; "frozen" the head, over cached features
    views             views of each training image that are cached: 1 is the plain one, more are augmented besides
    loss              None trains nothing: the row of an un-trained network or of raw pixels
    method            what is trained beside one loss on one head, and the head that goes with it; plain: nothing
    embedding_size    None leaves the backbone's features as they are, without a head
    head              how the head begins: "random", "identity" (principal directions) or "whitening"
    choose_by         validation score whose best epoch gives the weights; "last" takes the last epoch
    choose_on         classes whose score chooses the epoch: "validation"; or "test", as some papers do, optimistic
    patience          epochs without a better validation score before the run stops; None never stops early
    data_fingerprint  what the data and the split held when the recipe was made
    split_fingerprint
    ================  ====================================================================================
    """

    protocol: str | None
    data: Record
    split: Record
    model: Record
    depth: str
    cut: str | None
    views: int
    embedding_size: int | None
    head: str
    batch_norm: str
    transform: Record | None
    loss: Record | None
    method: Record
    sampler: Record
    optimizer: Record
    schedule: Record
    epochs: int
    clip_gradients: float | None
    autocast: bool
    choose_by: str
    choose_on: str
    patience: int | None
    seed: int
    data_fingerprint: str
    split_fingerprint: str

    @property
    def name(self) -> str:
        """The hash of the whole recipe."""
        return hash_of(self.to_mapping())

    @property
    def label(self) -> str:
        """What is trained, in a word or two: the loss, and the method that goes beyond it."""
        return label_of(self.loss, self.method)

    def to_mapping(self) -> Record:
        """The recipe as plain values."""
        return asdict(self)


def label_of(loss: Record | None, method: Record) -> str:
    """A loss and a method in a word or two.

    >>> label_of({"name": "margin"}, {"name": "plain"}), label_of({"name": "margin"}, {"name": "diva"})
    ('margin', 'margin-diva')
    """
    if loss is None:
        return "un-trained"
    return loss["name"] if method["name"] == "plain" else f"{loss['name']}-{method['name']}"


@dataclass(frozen=True)
class Prepared:
    """A recipe with the data it was settled on."""

    recipe: Recipe
    catalogue: Catalogue
    split: Split


def defaults_for(catalogue: Catalogue, depth: str | None = None, *, is_pretrained: bool = True) -> Record:
    """Settings for a kind of data when nobody states any: a laptop's, and honest (class-disjoint validation).

    Image files are trained at `top`, as their default backbone is pretrained; other data, and a backbone that is not
    pretrained, at `full`.
    """
    is_files = catalogue.reader.kind == "image files"
    common: Record = {
        "protocol": None,
        "split": "given" if catalogue.fixed_split is not None else "fraction",
        "depth": depth or ("top" if is_files and is_pretrained else "full"),
        "views": 1,
        "head": "random",
        "batch_norm": "auto",
        "transform": None,
        "loss": "multi_similarity",
        "method": "plain",
        "sampler": "samples_per_class:batch_size=112,per_class=4",
        "schedule": "cosine",
        "epochs": 20,
        "clip_gradients": None,
        "autocast": False,
        "choose_by": "recall@1",
        "choose_on": "validation",
        "patience": None,
        "seed": 0,
    }
    if catalogue.reader.kind == "features":
        width = catalogue.reader.features.shape[1]  # type: ignore[attr-defined]
        return common | {"model": "identity", "embedding_size": min(512, width)} | _A_HEAD_ALONE
    if not is_files:
        head = _A_HEAD_ALONE if depth == "frozen" else {"optimizer": "adam:lr=2e-3"}
        return common | {"model": "convnet", "embedding_size": 128} | head
    files = common | {
        "model": "tf_efficientnet_lite0:pretrained=lite0",
        "embedding_size": 512,
        "transform": "crop:size=160",
        "optimizer": "adam:lr=1e-4",
        "epochs": 10,
    }
    if files["depth"] == "top":
        return files | _STAGES_ABOVE_A_CUT
    if files["depth"] == "frozen":
        return files | _A_HEAD_ALONE
    return files | (_FINE_TUNING if is_pretrained else {})


def prepare(settings: Mapping[str, Any], load: Callable[[Record], Catalogue] = load_catalogue) -> Prepared:
    """The complete recipe of a run: settings as people give them, checked, with every default written out.

    What is stated stands over the named recipe, that over the protocol, the protocol over the defaults.
    """
    known = [each.name for each in fields(Recipe) if not each.name.endswith("_fingerprint")]
    for key in settings:
        if key not in known and key not in ("miner", "recipe", "data_fingerprint", "split_fingerprint"):
            raise ConfigError(f"a run has no setting '{key}'{nearest(key, known)} (it has: {', '.join(known)})")
    if settings.get("data") is None:
        raise ConfigError(
            "a run needs data",
            hint="Use --data glyphs, folder=DIR, table=FILE.csv, features=FILE.npz, cub200=DIR, ....",
        )
    data = complete(REGISTRIES["data"], abbreviate_home(settings["data"], "data"))
    catalogue = load(data)
    stated = {key: value for key, value in settings.items() if key != "data"}
    name = stated.pop("recipe", None)
    if name is not None:
        stated = load_recipe(name).under(stated, data["name"])
    stated = _under_protocol(stated, data["name"])
    merged = defaults_for(catalogue, stated.get("depth"), is_pretrained=_is_pretrained(stated)) | stated
    miner = merged.pop("miner", None)
    if miner is not None:
        if merged["loss"] is None:
            raise ConfigError("a miner needs a loss", got=miner)
        merged["loss"] = as_record(merged["loss"], "loss") | {"miner": miner}
    method = complete(REGISTRIES["method"], merged["method"])
    if merged["loss"] is None and method["name"] != "plain":
        raise ConfigError("a method needs a loss", got=method["name"], hint="Use --loss, or no --method.")
    if merged["choose_on"] == "test" and "split" not in stated:
        # Nothing is chosen on validation classes, so none are taken from the training classes.
        merged["split"] = {"name": merged["split"], "validation": 0}
    split_record = complete(REGISTRIES["split"], abbreviate_home(merged["split"], "split"))
    split = split_catalogue(catalogue, split_record)
    if merged["choose_on"] == "validation" and len(split.validation) == 0:
        merged["choose_by"] = "last"
    model = complete(REGISTRIES["backbone"], model_record(merged["model"]), _KNOWN_BY_THE_RUN)
    if merged["depth"] == "top" and merged.get("cut") is None:
        merged["cut"] = default_cut(str(model.get("architecture", model["name"])))
    made = {
        "cut": None,
        **merged,
        "data": data,
        "split": split_record,
        "model": model,
        "transform": _transform(merged["transform"], model),
        "loss": _completed("loss", merged["loss"], _KNOWN_BY_THE_RUN),
        "method": method,
        "sampler": _completed("sampler", merged["sampler"]),
        "optimizer": _completed("optimizer", merged["optimizer"]),
        "schedule": _completed("schedule", merged["schedule"]),
    }
    for key, now in (("data_fingerprint", catalogue.fingerprint), ("split_fingerprint", split.fingerprint)):
        if merged.get(key, now) != now:
            raise ConfigError(
                f"{data['name']}: the {key.split('_')[0]} has changed since this recipe was made", hint="Use a new run."
            )
        made[key] = now
    _check_values(made)
    _check_components(made, split)
    return Prepared(Recipe(**made), catalogue, split)


def _under_protocol(stated: Record, data: str) -> Record:
    """What was stated, over the settings of the protocol that it names, if it names one."""
    if stated.get("protocol") is None:
        return stated
    loss = stated.get("loss")
    settings = load_protocol(stated["protocol"]).settings_for(data, loss)
    # A loss that was asked for comes back with what the paper states for it besides.
    return settings | {key: value for key, value in stated.items() if key != "loss" or loss is None}


def _is_pretrained(stated: Record) -> bool:
    """Whether the model begins with learnt weights; the default one does."""
    if "model" not in stated:
        return True
    model = model_record(stated["model"])
    return model.get("weights") is not None or model.get("pretrained") is not None


def _completed(kind: str, value: Any, supplied: Record | None = None) -> Record | None:
    return None if value is None else complete(REGISTRIES[kind], value, supplied)


def _transform(value: Any, model: Record) -> Record | None:
    """The transform, with the normalisation that the backbone's weights were trained with unless it states one."""
    if value is None:
        return None
    record = as_record(value, "transform")
    if "mean" not in record and "std" not in record:
        record |= input_normalization(str(model.get("architecture", model["name"])))
    return complete(REGISTRIES["transform"], record)


def _check_values(made: Record) -> None:
    check_count("run", "epochs", made["epochs"], at_least=0)
    check_count("run", "seed", made["seed"], at_least=0)
    for key, at_least in (("embedding_size", 1), ("patience", 1)):
        if made[key] is not None:
            check_count("run", key, made[key], at_least=at_least)
    if made["clip_gradients"] is not None:
        check_above("run", "clip_gradients", made["clip_gradients"], 0)
    check_count("run", "views", made["views"])
    check_choice("run", "depth", made["depth"], DEPTHS)
    check_choice("run", "head", made["head"], HEAD_INITS)
    check_choice("run", "choose_on", made["choose_on"], ("validation", "test"))
    if made["cut"] is not None and made["depth"] != "top":
        raise ConfigError("run: cut speaks of the depth top", got=made["depth"], hint="Use --depth top.")
    if made["views"] > 1 and made["depth"] == "full":
        raise ConfigError(
            "run: views are for cached depths; at full every visit is a new view", hint="Use --depth top."
        )
    if made["views"] > 1 and made["transform"] is None:
        raise ConfigError(
            "run: views differ by augmentation, and there is no transform", hint="Use --transform crop:size=..."
        )
    hints = get_type_hints(Recipe)
    for key in ("autocast", "choose_by", "batch_norm"):
        if not isinstance(made[key], hints[key]):
            raise ConfigError(f"run: {key} must be of type {hints[key].__name__}", got=made[key])
    if made["choose_by"] != "last" and list(read_names(made["choose_by"], ks=(1,))[0]) != [made["choose_by"]]:
        raise ConfigError("run: choose_by must be one score with its k, or 'last'", got=made["choose_by"])


def _check_components(made: Record, split: Split) -> None:
    """Build what is cheap to build: a value out of range is refused here, not after the run has begun."""
    if made["model"].get("weights") is not None:
        check_weights_file(Path(made["model"]["weights"]))
    known = {"num_classes": split.classes["train"], "embedding_size": made["embedding_size"] or 1, "seed": made["seed"]}
    for kind in ("transform", "loss", "method", "sampler", "optimizer", "schedule"):
        if made[kind] is not None:
            build(REGISTRIES[kind], made[kind], known if kind == "loss" else None)


def abbreviate_home(value: str | Mapping[str, Any], kind: str) -> Record:
    """A record with the user's home folder in its paths written as ~: no home path goes into any file of ours."""
    record = as_record(value, kind)
    if isinstance(record.get("parts"), Mapping):
        record["parts"] = {label: abbreviate_home(part, kind) for label, part in record["parts"].items()}
    home = str(Path.home())
    path = record.get("path")
    if isinstance(path, str) and home != "/" and (path == home or path.startswith(home + "/")):
        record["path"] = "~" + path.removeprefix(home)
    return record
