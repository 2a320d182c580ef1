"""A finished run as a file that other programs run: ONNX or TorchScript, and a JSON file that describes it."""

import copy
import hashlib
import importlib
import io
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

import unseen
from unseen.core.checks import check_choice
from unseen.core.config import Record
from unseen.core.errors import ConfigError
from unseen.core.files import write_bytes, write_json, write_text
from unseen.core.progress import Progress, no_progress
from unseen.data import FeatureArray, evaluation_batches, make_loader
from unseen.data.transforms import Crop, Plain
from unseen.evaluation import evaluate
from unseen.models import Embedder, packaged_weights, to_onnx
from unseen.models.onnx_graph import INPUT, OUTPUT
from unseen.runs import LoadedRun, RunFolder, evaluation_arguments, load_run
from unseen.search import preprocess
from unseen.search.quantize import quantize

SUFFIXES = {"onnx": ".onnx", "torchscript": ".pt"}
# How far embeddings of an exported model may be from those of the run, relative to their length, at fp32.
TOLERANCE = 1e-4
COMPARED = 16  # test images whose embeddings are compared
CALIBRATED = 128  # training images that int8 takes the ranges of activations from
_BATCH = 16
Runner = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ExportSettings:
    """How a run is exported.

    ===========  ===================================================================================
    format       "onnx" (any number of rows, for ONNX Runtime and others) or "torchscript"
    precision    of weights and activations: "fp32", "fp16", or "int8" for ONNX
    unit_length  True divides embeddings by their length; False returns them as the run does
    measure      True embeds the run's test items with the exported model and states recall@1
    ===========  ===================================================================================
    """

    format: Literal["onnx", "torchscript"] = "onnx"
    precision: Literal["fp32", "fp16", "int8"] = "fp32"
    unit_length: bool = False
    measure: bool = True

    def __post_init__(self) -> None:
        check_choice("export", "format", self.format, tuple(SUFFIXES))
        check_choice("export", "precision", self.precision, ("fp32", "fp16", "int8"))
        if self.format == "torchscript" and self.precision == "int8":
            raise ConfigError("export: int8 is for ONNX only", got="torchscript", hint="Use --format onnx.")
        if self.format == "onnx":
            _onnxruntime()


def export_run(folder: Path, out: Path | None, settings: ExportSettings, progress: Progress = no_progress) -> Path:
    """Write a finished run as a model file, a description (FILE.json), and what turns images into its inputs.

    `out` is the model file; by default it is in the folder of the run. Files appear when they are complete, the
    description last; nothing is written if the exported model does not compute what the run computes.

    Raises:  `ConfigError` for what is not a run, a file that cannot be written, and a model that cannot be exported
    """
    out = _default_file(folder, settings) if out is None else out
    _check_file(out, settings)
    run, result = load_run(folder), RunFolder(folder).result()
    source = _source(run)
    network = ExportedNetwork(run.model, source, half=settings.precision == "fp16", unit_length=settings.unit_length)
    content = _content(network, source, run, settings)
    runner = _runner(content, settings)
    agreement = _agreement(run, source, runner, settings)
    description = {
        "made_by": f"unseen {unseen.__version__}",
        "run": run.prepared.recipe.name,
        "format": settings.format,
        "precision": settings.precision,
        "file": out.name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "input": source.description,
        "preprocessing": source.preprocessing,
        "output": {
            "name": OUTPUT,
            "dtype": "float32",
            "shape": ["batch", run.model.width],
            "unit_length": settings.unit_length,
            "compare_by": "cosine similarity",
        },
        "model": run.prepared.recipe.model,
        "pretraining": result["protocol"].get("pretraining", "not stated"),
        "licences_of_weights": _licences(run.prepared.recipe.model),
        "agreement": agreement,
        "recall@1": _recall(run, result, source, runner, progress) if settings.measure else None,
    }
    write_bytes(out, content)
    if source.preprocessing is not None:
        code = Path(preprocess.__file__).read_text(encoding="utf-8")
        write_text(out.with_name("preprocess.py"), code)
    write_json(out.with_name(f"{out.name}.json"), description)
    return out


@dataclass(frozen=True)
class Source:
    """What goes into an exported model: features as they are, or the bytes of images, which it normalises."""

    shape: tuple[int, ...]  # of one input of the run's network
    mean: tuple[float, ...] | None  # of [0, 1], for each channel; None for features
    std: tuple[float, ...] | None
    preprocessing: Record | None

    @property
    def description(self) -> Record:
        """The input for people and programs that have only the file."""
        if self.mean is None:
            content = "features, as in the data of the run"
            return {"name": INPUT, "dtype": "float32", "shape": ["batch", *self.shape], "content": content}
        channels, height, width = self.shape
        colours = "RGB" if channels == 3 else "grey"
        return {
            "name": INPUT,
            "dtype": "uint8",
            "shape": ["batch", height, width, channels],
            "content": f"{colours} bytes from 0 to 255, as Pillow decodes them",
            "normalisation_in_the_model": {"mean": list(self.mean), "std": list(self.std or ())},
        }

    def as_input(self, inputs: Tensor) -> Tensor:
        """Return inputs of the exported model from those of the run's network, by undoing the normalisation."""
        if self.mean is None or self.std is None:
            return inputs
        mean, std = (torch.tensor(values).reshape(-1, 1, 1) for values in (self.mean, self.std))
        return ((inputs * std + mean) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()


class ExportedNetwork(nn.Module):
    """Embeddings from features, or from images as bytes (n, height, width, channels)."""

    def __init__(self, model: Embedder, source: Source, *, half: bool, unit_length: bool) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).cpu().eval()
        self.dtype = torch.float16 if half else torch.float32
        self.model.to(self.dtype)
        self.unit_length, self.takes_bytes = unit_length, source.mean is not None
        for name, values in (("mean", source.mean), ("std", source.std)):
            self.register_buffer(name, torch.tensor(values or (0.0,)).reshape(-1, 1, 1))
        self.requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return embeddings as float32."""
        if self.takes_bytes:
            inputs = (inputs.permute(0, 3, 1, 2).to(torch.float32) / 255 - self.mean) / self.std
        embeddings = self.model(inputs.to(self.dtype)).to(torch.float32)
        return normalize(embeddings) if self.unit_length else embeddings


def _source(run: LoadedRun) -> Source:
    items = run.items
    if isinstance(items.catalogue.reader, FeatureArray):
        return Source(items.input_shape, None, None, None)
    transform = items.transform
    if transform is None:  # images in memory, from bytes to [-1, 1]
        return Source(items.input_shape, (0.5,), (0.5,), None)
    steps: Record = {"shorter_side": None, "centre_crop": None, "stretch_to": None, "interpolation": "bilinear"}
    if isinstance(transform, Crop):
        resize = round(transform.size * 256 / 224) if transform.resize is None else transform.resize
        steps |= {"shorter_side": resize, "centre_crop": transform.size}
    elif isinstance(transform, Plain):
        steps["stretch_to"] = transform.size
    else:
        raise ConfigError(
            "export: the transform of this run is not known", got=type(transform).__name__, hint="Use crop or plain."
        )
    steps["run_reduced_large_jpegs"] = transform.draft
    return Source(items.input_shape, transform.mean, transform.std, steps)


def _default_file(folder: Path, settings: ExportSettings) -> Path:
    precision = "" if settings.precision == "fp32" else f".{settings.precision}"
    return folder / f"model{precision}{SUFFIXES[settings.format]}"


def _check_file(out: Path, settings: ExportSettings) -> None:
    suffix = SUFFIXES[settings.format]
    if out.suffix != suffix:
        raise ConfigError(f"export: --out must end in {suffix}", got=str(out))
    existing = next(folder for folder in out.absolute().parents if folder.exists())
    if out.is_dir() or not existing.is_dir() or not os.access(existing, os.W_OK):
        raise ConfigError(f"export: cannot write {out}", hint="Set --out to a file in a folder that can be written.")


def _content(network: ExportedNetwork, source: Source, run: LoadedRun, settings: ExportSettings) -> bytes:
    """The model file."""
    example = next(_inputs(run, source, run.prepared.split.test[:2]))
    if settings.format == "torchscript":
        return _to_torchscript(network, example)
    graph = to_onnx(network, example)
    if settings.precision != "int8":
        return graph
    train = run.prepared.split.train
    chosen = train[np.linspace(0, len(train) - 1, min(CALIBRATED, len(train))).round().astype(int)]
    is_convolutional = any(isinstance(module, nn.BatchNorm2d) for module in network.modules())
    return quantize(graph, (batch.numpy() for batch in _inputs(run, source, chosen)) if is_convolutional else None)


def _to_torchscript(network: nn.Module, example: Tensor) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # tracing warns of checks on shapes, which hold for any number of rows
        torch.jit.save(torch.jit.freeze(torch.jit.trace(network.eval(), example, check_trace=False)), buffer)
    return buffer.getvalue()


def _runner(content: bytes, settings: ExportSettings) -> Runner:
    """What runs a model file, from arrays to arrays."""
    if settings.format == "torchscript":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            script = torch.jit.load(io.BytesIO(content))
        return lambda inputs: script(torch.from_numpy(inputs)).numpy()  # type: ignore[no-any-return]
    session = _onnxruntime().InferenceSession(content, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run([OUTPUT], {INPUT: inputs})[0]  # type: ignore[no-any-return]


def _onnxruntime() -> Any:
    try:
        return importlib.import_module("onnxruntime")
    except ImportError:
        raise ConfigError(
            "export: ONNX needs onnxruntime, which is not installed", hint="Run pip install 'unseen[onnx]'."
        ) from None


def _inputs(run: LoadedRun, source: Source, indices: np.ndarray) -> Iterator[Tensor]:
    for batch in make_loader(run.items, evaluation_batches(indices, _BATCH)):
        yield source.as_input(batch.inputs)


def _agreement(run: LoadedRun, source: Source, runner: Runner, settings: ExportSettings) -> Record:
    """Compare embeddings of some test items, in batches of several sizes, with those of the run."""
    inputs = torch.cat(list(_inputs(run, source, run.prepared.split.test[:COMPARED])))
    expected = ExportedNetwork(run.model, source, half=False, unit_length=settings.unit_length)
    with torch.inference_mode():
        own = expected(inputs).numpy()
    sizes = (part for part in np.split(inputs.numpy(), [1, 3]) if len(part))
    exported = np.concatenate([runner(part) for part in sizes])
    lengths = np.maximum(np.linalg.norm(own, axis=1), np.finfo(np.float32).tiny)
    largest = float((np.linalg.norm(exported - own, axis=1) / lengths).max())
    if settings.precision == "fp32" and not largest <= TOLERANCE:
        raise ConfigError(
            f"export: the exported model differs from the run by {largest:.1e} of the embeddings' length, "
            f"more than {TOLERANCE:.0e}"
        )
    tolerance = TOLERANCE if settings.precision == "fp32" else None
    return {"items": len(inputs), "largest_relative_difference": largest, "tolerance": tolerance}


def _recall(run: LoadedRun, result: Record, source: Source, runner: Runner, progress: Progress) -> Record:
    """Recall@1 on the run's test items: as the run measured it, and by the exported model."""
    test = run.prepared.split.test
    rows: list[np.ndarray] = []
    done = 0
    for batch in _inputs(run, source, test):
        rows.append(runner(batch.numpy()))
        done += len(batch)
        progress(done, len(test), "")
    arguments = evaluation_arguments(run.prepared.catalogue, run.prepared.split)
    scores = evaluate(np.concatenate(rows), scores=["recall@1"], bootstrap=None, **arguments)
    return {
        "run": result["scores"]["numbers"]["recall@1"],
        "exported": scores["recall@1"],
        "queries": scores.queries,
        "classes": scores.classes,
    }


def _licences(model: Record) -> dict[str, str]:
    """The licence of every packaged set of weights in a model, by its name."""
    members = [member.get("pretrained") for member in model.get("backbones", [model])]
    return {str(name): packaged_weights()[name].licence for name in members if name in packaged_weights()}
