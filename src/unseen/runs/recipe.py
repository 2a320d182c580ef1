"""A recipe: everything that decides a run's numbers, complete, checked and hashed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from unseen.core.checks import check_choice
from unseen.core.config import Record, as_record, build, complete, hash_of
from unseen.core.errors import ConfigError
from unseen.core.registry import REGISTRIES
from unseen.core.validation import SETTINGS, Count, PositiveInt, PositiveNumber, unknown_setting, validate
from unseen.data import Catalogue, ImagesInMemory, Split, load_catalogue, split_catalogue
from unseen.evaluation.score_table import read_names
from unseen.models import default_cut, has_fixed_input_size, input_normalization, model_record, pretraining_of
from unseen.models.embedder import SUPPLIED, BatchNormPolicy
from unseen.models.engine import ENGINES, EngineName, fastest_engine
from unseen.models.heads import HeadInit
from unseen.models.onnx_graph import is_known_to_export
from unseen.models.pretrained.pretraining import UNTRAINED
from unseen.models.pretrained.weights import check_weights_file
from unseen.runs.defaults import defaults_for
from unseen.runs.named_recipes import load_recipe
from unseen.runs.protocols import load_protocol

# Constructor arguments that the run itself fills in, so that no record has to state them.
_FILLED_IN: Record = SUPPLIED | dict.fromkeys(("num_classes", "embedding_size", "seed"), None)


class Recipe(BaseModel):
    """The settings of one run; two runs with equal recipes have equal numbers.

    ================  ====================================================================================
    protocol          the paper whose settings apply where none were stated; None for no paper
    depth             "full" trains the whole model; "top" the backbone from the stage `cut` on and the head, on
                      cached activations; "frozen" the head, on cached features
    views             cached views of each training image: the plain one and `views` - 1 augmented ones
    embedding_size    None uses the backbone's features, without a head
    head              initialization of the head: "random", "identity" (principal directions), "whitening", or "lda"
                      (discriminant analysis of the training classes)
    loss              None trains nothing: the row of an untrained network or of raw pixels
    method            what is trained besides one loss on one head; "plain" adds nothing
    epochs            of training the whole trained part, after `head_epochs` that train its head alone
    head_lr           learning rate of the head; None: that of the optimizer
    average           decay of a moving average of the weights, validated and kept in their place; None has none
    blend             share of the trained weights in the final ones, the rest are the weights before training; "auto":
                      the share of 0, 0.1, ..., 1 with the best validation score; None: the trained weights
    compile           whether the backbone is compiled for training, which rounds differently
    choose_by         validation score whose best epoch provides the weights; "last" takes the last epoch
    choose_on         classes whose score chooses the epoch: "validation"; or "test", as some papers do, optimistic
    engine            what computes embeddings with fixed weights: "torch" or "onnx"; "auto" is resolved to one of
                      them when the recipe is made
    patience          epochs without a better validation score before the run stops; None never stops early
    data_fingerprint  hashes of the data and of the split when the recipe was made
    split_fingerprint
    ================  ====================================================================================
    """

    model_config = SETTINGS

    protocol: str | None
    data: Record
    split: Record
    model: Record
    depth: Literal["full", "top", "frozen"]
    cut: str | None
    views: PositiveInt
    embedding_size: PositiveInt | None
    head: HeadInit
    batch_norm: BatchNormPolicy
    transform: Record | None
    loss: Record | None
    method: Record
    sampler: Record
    optimizer: Record
    schedule: Record
    head_epochs: Count
    epochs: Count
    head_lr: PositiveNumber | None
    average: Annotated[float, Field(gt=0, lt=1)] | None
    blend: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] | None
    clip_gradients: PositiveNumber | None
    autocast: bool
    compile: bool
    engine: EngineName
    choose_by: str
    choose_on: Literal["validation", "test"]
    patience: PositiveInt | None
    seed: Count
    data_fingerprint: str
    split_fingerprint: str

    @model_validator(mode="after")
    def _check_combination(self) -> "Recipe":
        if self.cut is not None and self.depth != "top":
            raise ConfigError("run: cut applies to depth top only", got=self.depth, hint="Use --depth top.")
        if self.compile and self.depth == "frozen":
            raise ConfigError(
                "run: at depth frozen there is no backbone to compile", hint="Leave out --compile, or use --depth top."
            )
        if self.views > 1 and self.depth == "full":
            raise ConfigError(
                "run: views apply to cached depths; at full every visit is a new view", hint="Use --depth top."
            )
        if self.views > 1 and self.transform is None:
            raise ConfigError(
                "run: views differ by augmentation, and there is no transform", hint="Use --transform crop:size=224."
            )
        if self.crops_by_two_sizes and self.loss is not None and self.depth != "full" and self.views == 1:
            raise ConfigError(
                "run: train_size is the size of augmented crops, and a single cached view is not augmented",
                hint="Use --views 3, or leave out train_size.",
            )
        if self.embedding_size is None and (self.head_epochs > 0 or self.head_lr is not None):
            raise ConfigError("run: head_epochs and head_lr need a head", hint="Use --embedding-size 512.")
        if self.head_epochs > 0 and (self.depth == "frozen" or self.epochs == 0):
            raise ConfigError(
                "run: head_epochs come before epochs that train more than the head",
                hint="Use --depth frozen with --epochs to train the head alone.",
            )
        if self.blend == "auto" and self.choose_by == "last":
            raise ConfigError(
                "run: blend auto chooses by a validation score, and nothing is validated",
                hint="Use a split with validation classes, or a number such as --blend 0.5.",
            )
        if self.model["name"] == "joined" and self.depth != "frozen":
            raise ConfigError(
                "run: joined backbones are not trained themselves, only a head on their features",
                got=f"depth {self.depth}",
                hint="Use --depth frozen.",
            )
        if self.choose_by != "last" and list(read_names(self.choose_by, ks=(1,))[0]) != [self.choose_by]:
            raise ConfigError("run: choose_by must be one score with its k, or 'last'", got=self.choose_by)
        return self

    @property
    def crops_by_two_sizes(self) -> bool:
        """Whether crops for training have another size than those for evaluation."""
        transform = self.transform or {}
        return transform.get("train_size") not in (None, transform.get("size"))

    @property
    def name(self) -> str:
        """The hash of the whole recipe."""
        return hash_of(self.to_mapping())

    @property
    def label(self) -> str:
        """What is trained, in a word or two: the loss, and the method if it is not the plain one."""
        return label_of(self.loss, self.method)

    def to_mapping(self) -> Record:
        """The recipe as plain values."""
        return self.model_dump()


def label_of(loss: Record | None, method: Record) -> str:
    """A loss and a method in a word or two.

    >>> label_of({"name": "margin"}, {"name": "plain"}), label_of({"name": "margin"}, {"name": "diva"})
    ('margin', 'margin-diva')
    """
    if loss is None:
        return "untrained"
    return loss["name"] if method["name"] == "plain" else f"{loss['name']}-{method['name']}"


@dataclass(frozen=True)
class Prepared:
    """A recipe with its data. `images_checked` says that somebody has decoded every image file already."""

    recipe: Recipe
    catalogue: Catalogue
    split: Split
    images_checked: bool = False


def prepare(settings: Mapping[str, object], load: Callable[[Record], Catalogue] = load_catalogue) -> Prepared:
    """The complete recipe of a run: settings as people state them, checked, with every default written out.

    Stated settings override those of the named recipe, these override the protocol's, and these the defaults.

    Raises:  ConfigError for a setting that is unknown or does not fit
    """
    known = [name for name in Recipe.model_fields if not name.endswith("_fingerprint")]
    for key in settings:
        if key not in known and key not in ("miner", "recipe", "data_fingerprint", "split_fingerprint"):
            raise unknown_setting("run", key, known)
    if settings.get("data") is None:
        raise ConfigError(
            "run: there is no data", hint="Use --data with glyphs, folder=DIR, table=FILE.csv, features=FILE.npz, ..."
        )
    data = complete(REGISTRIES["data"], abbreviate_home(settings["data"], "data"))
    catalogue = load(data)
    stated = _with_recipe_and_protocol({key: settings[key] for key in settings if key != "data"}, data["name"])
    merged = {
        "cut": None,
        **_defaults(catalogue, stated),
        **stated,
        "data": data,
    }
    _complete_components(merged)
    if merged["loss"] is None:
        _leave_out_training(merged, stated)
    if merged["choose_on"] == "test" and "split" not in stated:
        # Nothing is chosen on validation classes, so none are taken from the training classes.
        merged["split"] = {"name": merged["split"], "validation": 0}
    merged["split"] = complete(REGISTRIES["split"], abbreviate_home(merged["split"], "split"))
    split = split_catalogue(catalogue, merged["split"])
    if merged["choose_on"] == "validation" and len(split.validation) == 0:
        merged["choose_by"] = "last"
        if "blend" not in stated and merged["blend"] == "auto":
            merged["blend"] = None
    for key, now in (("data", catalogue.fingerprint), ("split", split.fingerprint)):
        if merged.setdefault(f"{key}_fingerprint", now) != now:
            raise ConfigError(
                f"{data['name']}: the {key} has changed since this recipe was made", hint="Start a new run."
            )
    engine = merged["engine"]
    check_choice("run", "engine", engine, ENGINES)
    recipe = validate(Recipe, merged | {"engine": "torch" if engine == "auto" else engine}, "run")
    if engine == "auto":
        recipe = recipe.model_copy(update={"engine": _engine_for(recipe, catalogue, split)})
    _check_components(recipe, split)
    return Prepared(recipe, catalogue, split)


def _with_recipe_and_protocol(stated: Record, data: str) -> Record:
    """Stated settings, over those of the named recipe and of the protocol that they mention, if any."""
    name = stated.pop("recipe", None)
    if name is not None:
        stated = load_recipe(name).under(stated, data)
    if stated.get("protocol") is None:
        return stated
    loss = stated.get("loss")
    settings = load_protocol(stated["protocol"]).settings_for(data, loss)
    # A stated loss comes back with what the paper sets for it besides.
    return settings | {key: value for key, value in stated.items() if key != "loss" or loss is None}


def _leave_out_training(merged: Record, stated: Record) -> None:
    """Without a loss: leave out, in place, what only training has; refuse it where it was stated.

    Raises:     ConfigError
    """
    nothing = {"head_epochs": 0, "head_lr": None, "average": None, "blend": None}
    for key, value in nothing.items():
        if stated.get(key, value) != value:
            raise ConfigError(f"run: {key} applies to training, and there is no loss", got=stated[key])
    merged |= nothing


def _defaults(catalogue: Catalogue, stated: Record) -> Record:
    """The defaults for the data, the depth and the model that are stated; the default model is pretrained."""
    depth = stated.get("depth")
    if "model" not in stated:
        return defaults_for(catalogue, depth)
    model = model_record(stated["model"])
    if model["name"] == "joined":
        depth = depth or "frozen"
    defaults = defaults_for(catalogue, depth, is_pretrained=pretraining_of(model) != UNTRAINED)
    if defaults["transform"] is not None and has_fixed_input_size(model):
        defaults["transform"] = as_record(defaults["transform"], "transform") | {"train_size": None}
    return defaults


def _complete_components(merged: Record) -> None:
    """Write out the records of everything that is built, except data and split, in place."""
    miner = merged.pop("miner", None)
    if miner is not None:
        if merged["loss"] is None:
            raise ConfigError("run: a miner needs a loss", got=miner)
        merged["loss"] = as_record(merged["loss"], "loss") | {"miner": miner}
    merged["method"] = complete(REGISTRIES["method"], merged["method"])
    if merged["loss"] is None and merged["method"]["name"] != "plain":
        raise ConfigError(
            "run: a method needs a loss", got=merged["method"]["name"], hint="Use --loss, or no --method."
        )
    model = merged["model"] = complete(REGISTRIES["backbone"], model_record(merged["model"]), _FILLED_IN)
    if merged["depth"] == "top" and merged["cut"] is None:
        merged["cut"] = default_cut(str(model.get("architecture", model["name"])))
    if merged["transform"] is not None:
        record = as_record(merged["transform"], "transform")
        if "mean" not in record and "std" not in record:
            record |= input_normalization(model)  # what the backbone's weights were trained with
        merged["transform"] = record
    for kind in ("transform", "loss", "sampler", "optimizer", "schedule"):
        if merged[kind] is not None:
            merged[kind] = complete(REGISTRIES[kind], merged[kind], _FILLED_IN if kind == "loss" else None)


def _engine_for(recipe: Recipe, catalogue: Catalogue, split: Split) -> EngineName:
    """The engine that "auto" stands for: by how many images go through fixed weights, and by their size."""
    members = recipe.model.get("backbones", [recipe.model])
    if not all(is_known_to_export(str(member.get("architecture", member["name"]))) for member in members):
        return "torch"
    size = None if recipe.transform is None else recipe.transform.get("size")
    shape: tuple[int, ...] = () if size is None else (3, size, size)
    if isinstance(catalogue.reader, ImagesInMemory) and size is None:
        shape = catalogue.reader.pixels.shape[1:]
    views = len(split.train) * recipe.views + len(split.validation)
    return fastest_engine(len(split.test) + (0 if recipe.depth == "full" else views), shape)


def _check_components(recipe: Recipe, split: Split) -> None:
    """Build what is cheap to build: a value out of range is refused here, not after the run has begun."""
    for model in recipe.model.get("backbones", [recipe.model]):
        if model.get("weights") is not None:
            check_weights_file(Path(model["weights"]))
    known = {"num_classes": split.classes["train"], "embedding_size": recipe.embedding_size or 1, "seed": recipe.seed}
    for kind in ("transform", "loss", "method", "sampler", "optimizer", "schedule"):
        record = getattr(recipe, kind)
        if record is not None:
            build(REGISTRIES[kind], record, known if kind == "loss" else None)


def abbreviate_home(value: object, kind: str) -> Record:
    """A record with the user's home folder in its paths written as ~, so that no file of ours holds a home path."""
    record = as_record(value, kind)
    if isinstance(record.get("parts"), Mapping):
        record["parts"] = {label: abbreviate_home(part, kind) for label, part in record["parts"].items()}
    home = str(Path.home())
    path = record.get("path")
    if isinstance(path, str) and home != "/" and (path == home or path.startswith(home + "/")):
        record["path"] = "~" + path.removeprefix(home)
    return record
