"""`unseen evaluate` and `unseen embed`: what trained runs and other people's embeddings are worth."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

from unseen.cli import options

if TYPE_CHECKING:
    from unseen.evaluation import Scores


Target = Annotated[
    str, typer.Argument(help="A run's folder, an npz file with 'features' and 'labels', or an npy file with --labels.")
]
LabelFile = Annotated[Path | None, typer.Option(help="Labels of an npy file: an npy file, or a text with one a line.")]
Only = Annotated[str | None, typer.Option("--scores", help="Only these scores: recall@1,map@r")]
Without = Annotated[str | None, typer.Option(help="Not these: nmi,ami or clusters, structure, spectrum, curves, ranks")]
Draws = Annotated[int, typer.Option(help="Draws of classes for the intervals; 0 for no intervals.")]
Memory = Annotated[int, typer.Option(help="MB beyond the embeddings; changes the time, never a score.")]


def evaluate(
    target: Target,
    labels: LabelFile = None,
    scores: Only = None,
    without: Without = None,
    ks: Annotated[str, typer.Option(help="The k of recall and precision.")] = "1,2,4,8",
    draws: Draws = 1000,
    memory: Memory = 500,
    as_json: options.Json = False,
) -> None:
    """Print every score of the papers, exact, with its interval over classes."""
    measured = _measured(target, labels, scores, without, ks, draws, memory)
    if as_json:
        typer.echo(json.dumps(measured.to_dict(), indent=2))
    else:
        Console(highlight=False).print(measured.table())


def compare(
    first: Target,
    second: Target,
    labels: LabelFile = None,
    scores: Only = None,
    without: Without = None,
    ks: Annotated[str, typer.Option(help="The k of recall and precision.")] = "1,2,4,8",
    draws: Draws = 1000,
    memory: Memory = 500,
    as_json: options.Json = False,
) -> None:
    """Print the differences of two models on the same test set, with paired intervals over classes."""
    from unseen.evaluation import compare as compare_scores

    settings = (labels, scores, without, ks, draws, memory)
    found = compare_scores(_measured(first, *settings), _measured(second, *settings))
    if as_json:
        typer.echo(json.dumps({name: difference._asdict() for name, difference in found.items()}, indent=2))
    else:
        Console(highlight=False).print(found.table())


def calibrate(
    target: Target,
    labels: LabelFile = None,
    rate: Annotated[float, typer.Option(help="Share of pairs of different items that may pass.")] = 1e-3,
    as_json: options.Json = False,
) -> None:
    """Print the similarity from which on two images show the same item, at a chosen rate of false positives."""
    from dataclasses import asdict

    from unseen.core.console import table
    from unseen.evaluation import calibrate as calibrate_threshold

    embeddings, side, _, _ = _target(Path(target), labels)
    found = calibrate_threshold(embeddings, side["labels"], false_positive_rate=rate)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
        return
    rows = [
        ["threshold", f"{found.threshold:.5f}", _span(found.threshold_interval)],
        ["false positives, all pairs", f"{found.false_positive_rate:.3g}", ""],
        ["true positives, all pairs", f"{found.true_positive_rate:.3g}", ""],
        *(
            [f"{kind} positives, held-out classes", f"{value:.3g}", _span(interval)]
            for kind, value, interval in (
                ("false", found.held_out_false_positive_rate, found.held_out_false_positive_rate_interval),
                ("true", found.held_out_true_positive_rate, found.held_out_true_positive_rate_interval),
            )
        ),
    ]
    Console(highlight=False).print(table("calibration", ["what", "value", "95% interval"], rows))


def failures(
    target: Target,
    labels: LabelFile = None,
    count: Annotated[int, typer.Option(help="Entries of each list.")] = 10,
    duplicates: Annotated[
        float, typer.Option(help="Similarity from which on two items count as near duplicates.")
    ] = 0.98,
    memory: Memory = 500,
    as_json: options.Json = False,
) -> None:
    """Print where a model fails: the worst queries, confused classes, near duplicates of different classes."""
    from unseen.core.console import table
    from unseen.evaluation import failures as find_failures

    embeddings, side, names, items = _target(Path(target), labels)
    side.pop("super_labels", None)
    found = find_failures(embeddings, count=count, duplicate_similarity=duplicates, memory=memory, **side)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return

    def named(label: Any) -> str:
        return str(label if names is None else names[int(label)])

    def item(row: Any) -> str:
        return str(int(row) if items is None else items[int(row)])

    console = Console(highlight=False)
    worst, confused, near, weakest = found.worst, found.confused, found.near_duplicates, found.weakest
    rows = [
        [item(query), named(label), f"{rank:,.0f}", item(wrong), named(other), f"{similarity:.3f}"]
        for query, label, rank, wrong, other, similarity in zip(
            worst.query, worst.label, worst.rank, worst.wrong, worst.wrong_label, worst.wrong_similarity, strict=True
        )
    ]
    title = f"worst queries, of {found.failed_queries:,} that fail"
    console.print(table(title, ["query", "class", "first right at", "nearest wrong", "class", "similarity"], rows))
    rows = [
        [named(label), named(other), f"{queries:,}", f"{share:.0%}"]
        for label, other, queries, share in zip(
            confused.label, confused.wrong_label, confused.queries, confused.share, strict=True
        )
    ]
    console.print(
        table(f"confused classes, of {found.confused_pairs:,} pairs", ["class", "taken for", "queries", "share"], rows)
    )
    rows = [
        [item(first), named(label), item(second), named(other), f"{similarity:.4f}"]
        for first, label, second, other, similarity in zip(
            near.first, near.first_label, near.second, near.second_label, near.similarity, strict=True
        )
    ]
    title = f"near duplicates across classes, of {found.duplicate_pairs:,} pairs"
    console.print(table(title, ["item", "class", "item", "class", "similarity"], rows))
    rows = [
        [named(label), f"{queries:,}", f"{recall:.4f}"]
        for label, queries, recall in zip(weakest.label, weakest.queries, weakest.recall, strict=True)
    ]
    console.print(table("weakest classes", ["class", "queries", "recall@1"], rows))


def _span(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.5g} to {interval[1]:.5g}"


def _measured(
    target: str,
    labels: Path | None,
    scores: str | None,
    without: str | None,
    ks: str,
    draws: int,
    memory: int,
) -> "Scores":
    from unseen.evaluation import Bootstrap
    from unseen.evaluation import evaluate as evaluate_embeddings

    bootstrap = Bootstrap(draws=draws) if draws else None
    embeddings, side, _, _ = _target(Path(target), labels)
    return evaluate_embeddings(
        embeddings, scores=scores, without=without, ks=_numbers(ks), bootstrap=bootstrap, memory=memory, **side
    )


def _numbers(text: str) -> list[int]:
    from unseen.core.errors import ConfigError

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigError("--ks must be whole numbers with commas between them", got=text, hint="Use --ks 1,10,100.")
    return [int(part) for part in parts]


class _Target(NamedTuple):
    """Embeddings, what else `evaluate` takes, and the names of classes and items for people to read."""

    embeddings: Any
    side: dict[str, Any]
    class_names: Sequence[str] | None = None
    items: Sequence[str] | None = None


def _target(path: Path, labels: Path | None = None) -> _Target:
    """A run's test side, or the content of a file."""
    if labels is not None and path.suffix != ".npy":
        from unseen.core.errors import ConfigError

        raise ConfigError(
            "--labels belongs to an npy file", got=str(path), hint="Use an npz file or a run without --labels."
        )
    if path.is_dir():
        from unseen.models import embed as embed_items
        from unseen.runs import evaluation_arguments, load_run

        prepared, items, model = load_run(path)
        catalogue, test = prepared.catalogue, prepared.split.test
        embeddings = embed_items(model, items, test)
        names = [catalogue.ids[index] for index in test]
        return _Target(embeddings, evaluation_arguments(catalogue, prepared.split), catalogue.class_names, names)
    if path.suffix == ".npy":
        from unseen.evaluation.embedding_files import read_labels, read_mapped

        return _Target(read_mapped(path), {"labels": read_labels(path, labels)})
    from unseen.data import load_catalogue

    catalogue = load_catalogue({"name": "features", "path": str(path), "small_classes": "keep"})
    side: dict[str, Any] = {"labels": catalogue.labels}
    if catalogue.class_groups is not None and len(set(catalogue.class_groups)) > 1:
        side["super_labels"] = [catalogue.class_groups[label] for label in catalogue.labels]
    features = catalogue.reader.features  # type: ignore[attr-defined]
    return _Target(features, side, catalogue.class_names, catalogue.ids)


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
    from unseen.runs import load_run, make_dataset

    check_choice("embed", "side", side, ("all", "train", "validation", "test"))
    if out.suffix != ".npz":
        raise ConfigError("embed: --out must end in .npz", got=str(out))
    prepared, items, model = load_run(run)
    catalogue = prepared.catalogue
    indices = np.arange(len(catalogue)) if side == "all" else getattr(prepared.split, side)
    if data is not None:
        if side != "all":
            raise ConfigError("embed: --side speaks of the run's own data", hint="Use --side all with --data.")
        catalogue = load_catalogue(data)
        own = items.input_shape
        items = make_dataset(prepared.recipe, catalogue)
        if items.input_shape != own:
            raise ConfigError(f"embed: the run was trained on inputs of shape {own}", got=items.input_shape)
        indices = np.arange(len(catalogue))
    with progress_bar("embedding", total=len(indices)) as bar:
        embeddings = embed_items(model, items, indices, workers=workers, progress=bar.set)
    names = np.array(catalogue.class_names, dtype=np.str_)[catalogue.labels[indices]]
    paths = np.array(catalogue.ids, dtype=np.str_)[indices]
    buffer = io.BytesIO()
    np.savez(buffer, features=embeddings.numpy(), labels=names, paths=paths, allow_pickle=False)
    write_bytes(out, buffer.getvalue())
    console().print(f"wrote {out}: {embeddings.shape[0]} embeddings of width {embeddings.shape[1]}")
