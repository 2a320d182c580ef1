"""Options that several commands share, and how they become the settings of a run."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from unseen.core.config import read_yaml

Config = Annotated[
    Path | None, typer.Argument(help="A YAML file of settings, or a run's folder; options stand over it.")
]
Data = Annotated[
    str | None,
    typer.Option(
        help="glyphs, folder=DIR, table=FILE.csv, features=FILE.npz, cub200=DIR, cars196=DIR, sop=DIR or inshop=DIR",
        show_default=False,
    ),
]
Split = Annotated[
    str | None,
    typer.Option(help="fraction:train=0.5, groups:test=[A,B], classes, first, given, ladder=FILE:rung=3"),
]
Protocol = Annotated[str | None, typer.Option(help="A paper's settings under all others: R, K, D or O.")]
Model = Annotated[str | None, typer.Option(help="convnet, identity, or any timm name: resnet50:weights=FILE")]
Loss = Annotated[str | None, typer.Option(help="A loss with its settings: margin:beta=1.2; none trains nothing")]
Miner = Annotated[str | None, typer.Option(help="A miner for the loss: distance:upper_cutoff=1.4")]
Method = Annotated[str | None, typer.Option(help="What is trained beside the loss: s2sd, diva, mixup, uniform_prior")]
Recipe = Annotated[str | None, typer.Option(help="A published combination by name: r_margin (unseen list recipes)")]
Sampler = Annotated[str | None, typer.Option(help="samples_per_class:batch_size=112,per_class=2")]
Transform = Annotated[str | None, typer.Option(help="crop:size=224 or plain:size=32")]
Optimizer = Annotated[str | None, typer.Option(help="adam:lr=1e-5, adamw, sgd")]
Schedule = Annotated[str | None, typer.Option(help="constant, cosine:warmup=100, step:at=[0.6,0.85]")]
Epochs = Annotated[int | None, typer.Option(help="Epochs of training.")]
Embedding = Annotated[
    int | None, typer.Option(help="Width of the embedding; 0 leaves the backbone's features without a head.")
]
Seed = Annotated[int | None, typer.Option(help="Seed of every random draw.")]
BatchNorm = Annotated[str | None, typer.Option(help="auto, frozen (statistics frozen, affine trained) or trained")]
Clip = Annotated[float | None, typer.Option(help="Largest gradient norm.")]
Patience = Annotated[int | None, typer.Option(help="Stop after this many epochs without a better validation score.")]
ChooseBy = Annotated[str | None, typer.Option(help="Validation score that picks the epoch, or 'last'.")]
ChooseOn = Annotated[str | None, typer.Option(help="Classes that pick the epoch: validation; or test (optimistic).")]
Depth = Annotated[str | None, typer.Option(help="full (all weights), top (above --cut) or frozen (a head alone)")]
Cut = Annotated[str | None, typer.Option(help="Stage from which depth top trains: blocks.5, layer4")]
Views = Annotated[int | None, typer.Option(help="Cached views of an image: 1 plain; more, augmented ones besides.")]
Head = Annotated[str | None, typer.Option(help="How the head begins: random, identity or whitening")]
Autocast = Annotated[bool | None, typer.Option(help="bfloat16 in the backbone where the device has it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Cache = Annotated[Path | None, typer.Option(help="Folder of caches for the depths top and frozen.")]
Workers = Annotated[int, typer.Option(help="Processes that decode images (train) or run cells (study).")]


def _run_settings(
    config: Config = None,
    protocol: Protocol = None,
    recipe: Recipe = None,
    data: Data = None,
    split: Split = None,
    model: Model = None,
    depth: Depth = None,
    cut: Cut = None,
    views: Views = None,
    loss: Loss = None,
    miner: Miner = None,
    method: Method = None,
    sampler: Sampler = None,
    transform: Transform = None,
    optimizer: Optimizer = None,
    schedule: Schedule = None,
    epochs: Epochs = None,
    embedding_size: Embedding = None,
    head: Head = None,
    batch_norm: BatchNorm = None,
    clip_gradients: Clip = None,
    patience: Patience = None,
    choose_by: ChooseBy = None,
    choose_on: ChooseOn = None,
    autocast: Autocast = None,
    seed: Seed = None,
) -> None:
    """The options that describe a run; a signature only."""


def takes_run_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command every option that describes a run; it gets them as one mapping, its argument `settings`."""
    shared = inspect.signature(_run_settings).parameters
    own = {name: each for name, each in inspect.signature(command).parameters.items() if name != "settings"}

    @wraps(command)
    def with_settings(**given: Any) -> None:
        options = {name: given.pop(name) for name in shared}
        command(settings=_settings_from(options.pop("config"), options), **given)

    both = [*shared.values(), *own.values()]
    with_settings.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in both]
    )
    with_settings.__annotations__ = {each.name: each.annotation for each in both}
    return with_settings


def _settings_from(config: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run: those of a YAML file or of a run's folder, with the options that were given over them."""
    if config is not None and config.is_dir():
        config = config / "run.json"  # JSON is YAML
    settings = {} if config is None else read_yaml(config)
    given = {key: value for key, value in options.items() if value is not None}
    if given.get("loss") == "none":
        given["loss"] = None
    if given.get("embedding_size") == 0:
        given["embedding_size"] = None
    return {**settings.get("recipe", settings), **given}
