"""`unseen embed`: the embeddings of any data by a trained run, as a file."""

from pathlib import Path
from typing import Annotated

import typer

from unseen.cli import options


def embed(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="The npz file to write.")],
    data: options.Data = None,
    side: Annotated[str, typer.Option(help="all, train, validation or test (of the run's own data)")] = "all",
    engine: options.Engine = "auto",
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
    from unseen.models.engine import check_engine
    from unseen.runs import engine_of_run, load_run, make_dataset

    check_choice("embed", "side", side, ("all", "train", "validation", "test"))
    if out.suffix != ".npz":
        raise ConfigError("embed: --out must end in .npz", got=str(out))
    choice = check_engine(engine)
    prepared, dataset, model = load_run(run)
    catalogue = prepared.catalogue
    indices = np.arange(len(catalogue)) if side == "all" else getattr(prepared.split, side)
    if data is not None:
        if side != "all":
            raise ConfigError("embed: --side refers to the run's own data", hint="Leave --side out with --data.")
        catalogue = load_catalogue(data)
        trained_shape, dataset = dataset.input_shape, make_dataset(prepared.recipe, catalogue)
        if dataset.input_shape != trained_shape:
            raise ConfigError(f"embed: the run was trained on inputs of shape {trained_shape}", got=dataset.input_shape)
        indices = np.arange(len(catalogue))
    else:
        choice = engine_of_run(prepared.recipe, choice)
    with progress_bar("embedding", total=len(indices)) as bar:
        embeddings = embed_items(model, dataset, indices, engine=choice, workers=workers, progress=bar.set)
    names = np.array(catalogue.class_names, dtype=np.str_)[catalogue.labels[indices]]
    paths = np.array(catalogue.ids, dtype=np.str_)[indices]
    buffer = io.BytesIO()
    np.savez(buffer, features=embeddings.numpy(), labels=names, paths=paths, allow_pickle=False)
    write_bytes(out, buffer.getvalue())
    console().print(f"wrote {out}: {embeddings.shape[0]} embeddings of size {embeddings.shape[1]}")
