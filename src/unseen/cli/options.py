"""Options that several commands share, and how they become the settings of a run."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated

import typer

from unseen.core.config import Record, read_yaml

Data = Annotated[
    str | None,
    typer.Option(
        help="glyphs, folder=DIR, table=FILE.csv, features=FILE.npz, cub200=DIR, cars196=DIR, sop=DIR or inshop=DIR",
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(help="lite0, joined:[lite0,dinov2_s], convnet, ..., or any timm model: resnet50:weights=FILE"),
]
Transform = Annotated[str | None, typer.Option(help="crop:size=224 or plain:size=32")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Cache = Annotated[Path | None, typer.Option(help="Cache folder for the depths top and frozen.")]
Engine = Annotated[
    str, typer.Option(help="What computes embeddings: torch, onnx (with the extra onnx), or auto: the run's own.")
]
Workers = Annotated[
    int, typer.Option(help="Processes that run cells (study), or that decode images (elsewhere; 0: threads).")
]


def _run_settings(
    config: Annotated[
        Path | None, typer.Argument(help="A YAML file of settings, or a run's folder; options override it.")
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(help="A paper's complete settings as defaults: R, K, D or O (unseen show --protocol R)."),
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="A published combination by name: r_margin (unseen list recipes)")
    ] = None,
    data: Data = None,
    split: Annotated[
        str | None,
        typer.Option(help="fraction:train=0.5, groups:test=[A,B], classes, first, given, ladder=FILE:rung=3"),
    ] = None,
    model: Model = None,
    depth: Annotated[
        str | None, typer.Option(help="full (all weights), top (above --cut) or frozen (only the head)")
    ] = None,
    cut: Annotated[str | None, typer.Option(help="First trained stage at depth top: blocks.5, layer4")] = None,
    views: Annotated[
        int | None, typer.Option(help="Cached views per image: 1 is plain; further ones are augmented.")
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="A loss with its settings: margin:beta=1.2; none only evaluates")
    ] = None,
    miner: Annotated[str | None, typer.Option(help="A miner for the loss: distance:upper_cutoff=1.4")] = None,
    method: Annotated[
        str | None, typer.Option(help="An objective around the loss: classifier, s2sd, diva, mixup, uniform_prior")
    ] = None,
    sampler: Annotated[str | None, typer.Option(help="samples_per_class:batch_size=112,per_class=2")] = None,
    transform: Transform = None,
    optimizer: Annotated[str | None, typer.Option(help="adam:lr=1e-5, adamw, sgd")] = None,
    schedule: Annotated[str | None, typer.Option(help="constant, cosine:warmup=100, step:at=[0.6,0.85]")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of training.")] = None,
    head_epochs: Annotated[
        int | None, typer.Option(help="Epochs that train the head alone, before those of --epochs.")
    ] = None,
    head_lr: Annotated[
        float | None, typer.Option(help="Learning rate of the head; by default the optimizer's.")
    ] = None,
    average: Annotated[
        float | None, typer.Option(help="Decay of a moving average of the weights: 0.99; 0 keeps the last weights.")
    ] = None,
    blend: Annotated[
        str | None,
        typer.Option(help="Share of the trained weights, 0 to 1, in a blend with those before training; auto or none"),
    ] = None,
    embedding_size: Annotated[
        int | None, typer.Option(help="Embedding size; 0 uses the backbone's features without a head.")
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="Initialization of the head: random, identity, whitening or lda")
    ] = None,
    batch_norm: Annotated[
        str | None, typer.Option(help="auto, frozen (statistics frozen, affine trained) or trained")
    ] = None,
    clip_gradients: Annotated[float | None, typer.Option(help="Maximum gradient norm.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after this many epochs without a better validation score.")
    ] = None,
    choose_by: Annotated[str | None, typer.Option(help="Validation score that selects the epoch, or 'last'.")] = None,
    choose_on: Annotated[
        str | None, typer.Option(help="Classes that select the epoch: validation, or test (optimistic).")
    ] = None,
    autocast: Annotated[
        bool | None, typer.Option(help="Use bfloat16 in the backbone where the device supports it.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="What computes embeddings with fixed weights: torch, onnx, or auto: the faster one."),
    ] = None,
    compile: Annotated[
        bool | None,
        typer.Option(help="Compile the backbone for training: a minute or more, for long runs; needs a C++ compiler."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random draw.")] = None,
) -> None:
    """The options that describe a run; only the signature is used."""


def takes_run_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add every option that describes a run to a command, which receives them as one mapping, `settings`."""
    shared = inspect.signature(_run_settings).parameters
    own = {name: option for name, option in inspect.signature(command).parameters.items() if name != "settings"}

    @wraps(command)
    def with_settings(**values: object) -> None:
        options = {name: values.pop(name) for name in shared}
        command(settings=_merge(options.pop("config"), options), **values)

    parameters = [*shared.values(), *own.values()]
    with_settings.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # functions accept it, stubs do not
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    )
    with_settings.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_settings


def _merge(config: object, options: Record) -> Record:
    """The settings of a YAML file or of a run's folder, overridden by the options that were stated."""
    settings: Record = {}
    if isinstance(config, Path):
        settings = read_yaml(config / "run.json" if config.is_dir() else config)  # JSON is YAML
    stated = {name: value for name, value in options.items() if value is not None}
    if stated.get("loss") == "none":
        stated["loss"] = None
    for key in ("embedding_size", "average"):
        if stated.get(key) == 0:
            stated[key] = None
    if "blend" in stated:
        stated["blend"] = _number_or_name(stated["blend"])
    return {**settings.get("recipe", settings), **stated}


def _number_or_name(text: str) -> float | str | None:
    """The value of an option that takes a number or a name; "none" is None."""
    try:
        return float(text)
    except ValueError:
        return None if text == "none" else text
