"""`unseen failures`: the worst queries, confused classes, near duplicates and weakest classes."""

import json
from typing import Annotated

import typer
from rich.console import Console

from unseen.cli import options
from unseen.cli.target import LabelFile, Memory, TargetPath, read_target


def failures(
    target: TargetPath,
    labels: LabelFile = None,
    count: Annotated[int, typer.Option(help="Entries per list.")] = 10,
    duplicates: Annotated[
        float, typer.Option(help="Similarity above which two items count as near duplicates.")
    ] = 0.98,
    memory: Memory = 500,
    engine: options.Engine = "auto",
    as_json: options.Json = False,
) -> None:
    """Print where a model fails: the worst queries, confused classes, near duplicates of different classes."""
    from unseen.core.console import table
    from unseen.evaluation import failures as find_failures

    embeddings, arguments, class_names, item_names = read_target(target, labels, engine)
    arguments.pop("super_labels", None)
    result = find_failures(embeddings, count=count, duplicate_similarity=duplicates, memory=memory, **arguments)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=2))
        return

    def class_name(label: object) -> str:
        return str(label if class_names is None else class_names[int(str(label))])

    def item_name(row: object) -> str:
        return str(row if item_names is None else item_names[int(str(row))])

    screen = Console(highlight=False)
    worst, confused, near, weakest = result.worst, result.confused, result.near_duplicates, result.weakest
    rows = [
        [item_name(query), class_name(label), f"{rank:,.0f}", item_name(wrong), class_name(other), f"{similarity:.3f}"]
        for query, label, rank, wrong, other, similarity in zip(
            worst.query, worst.label, worst.rank, worst.wrong, worst.wrong_label, worst.wrong_similarity, strict=True
        )
    ]
    columns = ["query", "class", "rank of first positive", "nearest wrong", "class", "similarity"]
    screen.print(table(f"worst queries, of {result.failed_queries:,} that fail", columns, rows))
    rows = [
        [class_name(label), class_name(other), f"{queries:,}", f"{share:.0%}"]
        for label, other, queries, share in zip(
            confused.label, confused.wrong_label, confused.queries, confused.share, strict=True
        )
    ]
    title = f"confused classes, of {result.confused_pairs:,} pairs"
    screen.print(table(title, ["class", "taken for", "queries", "share"], rows))
    rows = [
        [item_name(first), class_name(label), item_name(second), class_name(other), f"{similarity:.4f}"]
        for first, label, second, other, similarity in zip(
            near.first, near.first_label, near.second, near.second_label, near.similarity, strict=True
        )
    ]
    title = f"near duplicates across classes, of {result.duplicate_pairs:,} pairs"
    screen.print(table(title, ["item", "class", "item", "class", "similarity"], rows))
    rows = [
        [class_name(label), f"{queries:,}", f"{recall:.4f}"]
        for label, queries, recall in zip(weakest.label, weakest.queries, weakest.recall, strict=True)
    ]
    screen.print(table("weakest classes", ["class", "queries", "recall@1"], rows))
