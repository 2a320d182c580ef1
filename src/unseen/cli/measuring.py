"""`unseen evaluate` and `unseen embed`: what trained runs and other people's embeddings are worth."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from unseen.cli import options


def evaluate(
    target: Annotated[str, typer.Argument(help="An npz file with 'features' and 'labels', or a run's folder.")],
    scores: Annotated[str | None, typer.Option(help="Only these scores: recall@1,map@r")] = None,
    as_json: options.Json = False,
) -> None:
    """Print every score of the papers, exact."""
    from unseen.evaluation import evaluate as evaluate_embeddings

    embeddings, side = _target(Path(target))
    measured = evaluate_embeddings(embeddings, scores=scores, **side)
    if as_json:
        typer.echo(json.dumps(measured.to_dict(), indent=2))
    else:
        Console(highlight=False).print(measured.table())


def _target(path: Path) -> tuple[Any, dict[str, Any]]:
    """Embeddings, and what else `evaluate` takes, of a run's test side or of a file."""
    if path.is_dir():
        from unseen.models import embed as embed_items
        from unseen.studies import load_run, test_side

        prepared, items, model = load_run(path)
        return embed_items(model, items, prepared.split.test), test_side(prepared.catalogue, prepared.split)
    from unseen.data import load_catalogue

    catalogue = load_catalogue({"name": "features", "path": str(path), "small_classes": "keep"})
    return catalogue.source.features, {"labels": catalogue.labels}  # type: ignore[attr-defined]


def embed(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="The npz file to write.")],
    data: options.Data = None,
    side: Annotated[str, typer.Option(help="all, train, validation or test (of the run's own data)")] = "all",
    workers: options.Workers = 0,
) -> None:
    """Write features, labels and paths of the run's own data, or of other data, as an npz file."""
    import io

    import numpy as np

    from unseen.core.checks import check_choice
    from unseen.core.console import console, progress_bar
    from unseen.core.errors import ConfigError
    from unseen.core.files import write_bytes
    from unseen.data import load_catalogue
    from unseen.models import embed as embed_items
    from unseen.studies import items_of, load_run

    check_choice("embed", "side", side, ("all", "train", "validation", "test"))
    if out.suffix != ".npz":
        raise ConfigError("embed: --out must end in .npz", got=str(out))
    prepared, items, model = load_run(run)
    catalogue = prepared.catalogue
    indices = np.arange(len(catalogue)) if side == "all" else getattr(prepared.split, side)
    if data is not None:
        if side != "all":
            raise ConfigError("embed: --side speaks of the run's own data", use="--side all with --data")
        catalogue = load_catalogue(data)
        own = items.input_shape
        items = items_of(prepared.recipe, catalogue)
        if items.input_shape != own:
            raise ConfigError(f"embed: the run was trained on inputs of shape {own}", got=items.input_shape)
        indices = np.arange(len(catalogue))
    with progress_bar("embedding", total=len(indices)) as bar:
        embeddings = embed_items(model, items, indices, workers=workers, tell=bar.advance)
    names = np.array(catalogue.class_names, dtype=np.str_)[catalogue.labels[indices]]
    paths = np.array(catalogue.ids, dtype=np.str_)[indices]
    buffer = io.BytesIO()
    np.savez(buffer, features=embeddings.numpy(), labels=names, paths=paths, allow_pickle=False)
    write_bytes(out, buffer.getvalue())
    console().print(f"wrote {out}: {embeddings.shape[0]} embeddings of width {embeddings.shape[1]}")
