"""`unseen data check` and `unseen data info`: integrity and statistics of a data set."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from unseen.cli import options
from unseen.core.config import Record

if TYPE_CHECKING:
    from unseen.data import Catalogue, IntegrityReport, Split
    from unseen.data.summary import ImageSizes, PartSummary

app = typer.Typer(help="Check the integrity of data and print its statistics.", no_args_is_help=True)

Data = Annotated[
    str, typer.Option(help="cub200=DIR, cars196=DIR, sop=DIR, inshop=DIR, folder=DIR, table=FILE.csv, ...")
]
SplitOption = Annotated[
    str | None, typer.Option("--split", help="The split to use; by default the one that the data states, if any.")
]

_MAX_LINES = 20


@app.command("check", help="Decode every image once, record checksums, and find broken files and duplicates.")
def check(
    data: Data,
    split: SplitOption = None,
    workers: Annotated[int, typer.Option(help="Processes that decode images.")] = 2,
    as_json: options.Json = False,
) -> None:
    """Check every image file; exit code 2 if one is broken."""
    from unseen.core.console import console
    from unseen.data import check_integrity, load_catalogue

    catalogue = load_catalogue(data)
    hash_before = catalogue.reader.content_hash()
    report = check_integrity(catalogue, _read_split(catalogue, split), workers=workers)
    content = _as_mapping(catalogue, report)
    if as_json:
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        _print_report(catalogue, report, content)
        if catalogue.reader.content_hash() != hash_before:
            console().print("the fingerprint is a new one: runs, studies and caches from before are of other data")
    if report.broken or report.altered:
        raise typer.Exit(2)


@app.command("info", help="Print counts, class sizes and image sizes; draw a contact sheet.")
def info(
    data: Data,
    split: SplitOption = None,
    sheet: Annotated[Path | None, typer.Option(help="A PNG file to write: some images of some classes.")] = None,
    as_json: options.Json = False,
) -> None:
    """Print the statistics of a data set."""
    from unseen.core.console import console
    from unseen.core.errors import ConfigError
    from unseen.data import load_catalogue
    from unseen.data.summary import image_sizes, summarize_parts

    if sheet is not None and sheet.suffix.lower() != ".png":
        raise ConfigError("data info: --sheet must end in .png", got=str(sheet))
    catalogue = load_catalogue(data)
    chosen = _read_split(catalogue, split)
    parts, sizes = summarize_parts(catalogue, chosen), image_sizes(catalogue)
    if as_json:
        content = {
            "name": catalogue.name,
            "kind": catalogue.reader.kind,
            "fingerprint": catalogue.fingerprint,
            "groups": len(set(catalogue.class_groups or ())),
            "parts": [asdict(part) for part in parts],
            "image_sizes": None if sizes is None else asdict(sizes),
            "notes": catalogue.notes,
        }
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        _print_info(catalogue, parts, sizes)
    if sheet is not None:
        _write_sheet(catalogue, chosen, sheet)
        console().print(f"wrote {sheet}", markup=False, soft_wrap=True)


def _print_info(catalogue: "Catalogue", parts: "list[PartSummary]", sizes: "ImageSizes | None") -> None:
    from unseen.core.console import table

    screen = Console(highlight=False)
    rows = []
    for part in parts:
        class_sizes = [f"{part.smallest:,}", f"{part.median:g}", f"{part.largest:,}"]
        rows.append([part.name, f"{part.images:,}", f"{part.classes:,}", *class_sizes])
    columns = ["part", "images", "classes", "smallest class", "median class", "largest class"]
    screen.print(table(escape(catalogue.describe()), columns, rows))
    if sizes is not None:
        pixels = [["width", *map(str, sizes.width)], ["height", *map(str, sizes.height)]]
        screen.print(table("pixels", ["", "smallest", "median", "largest"], pixels))
        common = ", ".join(f"{width} x {height} ({count:,} times)" for (width, height), count in sizes.commonest)
        screen.print(f"most common: {common}")
        if sizes.unreadable:
            screen.print(f"files with unreadable headers: {sizes.unreadable:,} (unseen data check names them)")
    screen.print(f"fingerprint: {catalogue.fingerprint}")


def _write_sheet(catalogue: "Catalogue", split: "Split | None", path: Path) -> None:
    import io

    from unseen.core.files import write_bytes
    from unseen.data.contact_sheet import contact_sheet

    buffer = io.BytesIO()
    contact_sheet(catalogue, split).save(buffer, "PNG")
    write_bytes(path, buffer.getvalue())


def _read_split(catalogue: "Catalogue", record: str | None) -> "Split | None":
    """The requested split, or the one that the data states."""
    from unseen.data import split_catalogue

    if record is None and catalogue.fixed_split is None:
        return None
    return split_catalogue(catalogue, record or "given:validation=0")


def _as_mapping(catalogue: "Catalogue", report: "IntegrityReport") -> Record:
    def ids(groups: tuple[tuple[int, ...], ...]) -> list[list[str]]:
        return [[catalogue.ids[index] for index in group] for group in groups]

    return {
        "files": report.files,
        "broken": list(report.broken),
        "altered": [catalogue.ids[index] for index in report.altered],
        "duplicates": ids(report.duplicates),
        "crossing": ids(report.crossing),
        "confused": ids(report.confused),
        "fingerprint": catalogue.fingerprint,
        "record": str(report.record),
    }


def _print_report(catalogue: "Catalogue", report: "IntegrityReport", content: Record) -> None:
    from unseen.core.console import table

    screen = Console(highlight=False)
    lines = [f"broken: {name}" for name in report.broken]
    lines += [f"altered: {name}" for name in content["altered"]]
    crossing, confused = set(report.crossing), set(report.confused)
    for group in sorted(report.duplicates, key=lambda group: group not in crossing):
        spans = [span for span, groups in (("two sides", crossing), ("two classes", confused)) if group in groups]
        names = " = ".join(catalogue.ids[index] for index in group)
        lines.append(f"same pixels: {names} ({' and '.join(spans) or 'one class'})")
    for line in lines[:_MAX_LINES]:
        screen.print(line, markup=False, soft_wrap=True)
    if len(lines) > _MAX_LINES:
        screen.print(f"and {len(lines) - _MAX_LINES:,} more: --json lists all")
    counts = {
        "intact images": report.files - len(report.broken),
        "broken files": len(report.broken),
        "altered since the last check, with the same size and time": len(report.altered),
        "groups of images with the same pixels": len(report.duplicates),
        "such groups on two sides of the split": len(report.crossing),
        "such groups in two classes": len(report.confused),
    }
    rows = [[name, f"{count:,}"] for name, count in counts.items()]
    screen.print(table(escape(catalogue.describe()), ["finding", "number"], rows))
    screen.print(f"checksums are recorded in {report.record}", markup=False, soft_wrap=True)
    basis = "sizes and times, as files are broken" if report.broken else "content"
    screen.print(f"fingerprint by {basis}: {catalogue.fingerprint}")
