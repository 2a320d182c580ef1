"""`unseen data check` and `unseen data info`: whether data is whole, and what it holds."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from unseen.cli import options

if TYPE_CHECKING:
    from unseen.data import Catalogue, IntegrityReport, Split
    from unseen.data.summary import ImageSizes, PartSummary

app = typer.Typer(help="Check data, and say what it holds.", no_args_is_help=True)

Data = Annotated[
    str, typer.Option(help="cub200=DIR, cars196=DIR, sop=DIR, inshop=DIR, folder=DIR, table=FILE.csv, ...")
]
Split_ = Annotated[
    str | None, typer.Option("--split", help="The split to look at; the data's own when left out, if it states one.")
]

_SHOWN = 20


@app.command("check", help="Decode every image once, record sums, and find broken files and duplicates.")
def check(
    data: Data,
    split: Split_ = None,
    workers: Annotated[int, typer.Option(help="Processes that decode images.")] = 2,
    as_json: options.Json = False,
) -> None:
    """Check every image file; exit code 2 when one is broken."""
    from unseen.core.console import console
    from unseen.data import check_integrity, load_catalogue

    catalogue = load_catalogue(data)
    before = catalogue.reader.content_hash()
    found = check_integrity(catalogue, _split_of(catalogue, split), workers=workers)
    content = _findings(catalogue, found)
    if as_json:
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        _print_findings(catalogue, found, content)
        if catalogue.reader.content_hash() != before:
            console().print("the fingerprint is a new one: runs, studies and caches from before are of other data")
    if found.broken or found.altered:
        raise typer.Exit(2)


@app.command("info", help="Print counts, class sizes and image sizes; draw a contact sheet.")
def info(
    data: Data,
    split: Split_ = None,
    sheet: Annotated[Path | None, typer.Option(help="A PNG to write: some images of some classes.")] = None,
    as_json: options.Json = False,
) -> None:
    """Print what the data holds."""
    from unseen.core.console import console
    from unseen.core.errors import ConfigError
    from unseen.data import load_catalogue
    from unseen.data.summary import image_sizes, summarize_parts

    if sheet is not None and sheet.suffix.lower() != ".png":
        raise ConfigError("data info: --sheet must end in .png", got=str(sheet))
    catalogue = load_catalogue(data)
    chosen = _split_of(catalogue, split)
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
    rows = [
        [
            part.name,
            f"{part.images:,}",
            f"{part.classes:,}",
            f"{part.smallest:,}",
            f"{part.median:g}",
            f"{part.largest:,}",
        ]
        for part in parts
    ]
    columns = ["part", "images", "classes", "smallest class", "median class", "largest class"]
    screen.print(table(escape(catalogue.describe()), columns, rows))
    if sizes is not None:
        pixels = [["width", *map(str, sizes.width)], ["height", *map(str, sizes.height)]]
        screen.print(table("pixels", ["", "smallest", "median", "largest"], pixels))
        common = ", ".join(f"{width} x {height} ({count:,} times)" for (width, height), count in sizes.commonest)
        screen.print(f"commonest: {common}")
        if sizes.unreadable:
            screen.print(f"files whose header cannot be read: {sizes.unreadable:,} (unseen data check names them)")
    screen.print(f"fingerprint: {catalogue.fingerprint}")


def _write_sheet(catalogue: "Catalogue", split: "Split | None", path: Path) -> None:
    import io

    from unseen.core.files import write_bytes
    from unseen.data.contact_sheet import contact_sheet

    buffer = io.BytesIO()
    contact_sheet(catalogue, split).save(buffer, "PNG")
    write_bytes(path, buffer.getvalue())


def _split_of(catalogue: "Catalogue", record: str | None) -> "Split | None":
    """The split that was asked for, or the one that the data states, as it states it."""
    from unseen.data import split_catalogue

    if record is None and catalogue.fixed_split is None:
        return None
    return split_catalogue(catalogue, record or "given:validation=0")


def _findings(catalogue: "Catalogue", found: "IntegrityReport") -> dict[str, Any]:
    def named(groups: tuple[tuple[int, ...], ...]) -> list[list[str]]:
        return [[catalogue.ids[index] for index in group] for group in groups]

    return {
        "files": found.files,
        "broken": list(found.broken),
        "altered": [catalogue.ids[index] for index in found.altered],
        "duplicates": named(found.duplicates),
        "crossing": named(found.crossing),
        "confused": named(found.confused),
        "fingerprint": catalogue.fingerprint,
        "record": str(found.record),
    }


def _print_findings(catalogue: "Catalogue", found: "IntegrityReport", content: dict[str, Any]) -> None:
    from unseen.core.console import table

    screen = Console(highlight=False)
    told = [f"broken: {each}" for each in found.broken]
    told += [f"altered: {each}" for each in content["altered"]]
    crossing, confused = set(found.crossing), set(found.confused)
    for group in sorted(found.duplicates, key=lambda each: each not in crossing):
        words = [word for word, kind in (("two sides", crossing), ("two classes", confused)) if group in kind]
        names = " = ".join(catalogue.ids[each] for each in group)
        told.append(f"same pixels: {names} ({' and '.join(words) or 'one class'})")
    for line in told[:_SHOWN]:
        screen.print(line, markup=False, soft_wrap=True)
    if len(told) > _SHOWN:
        screen.print(f"and {len(told) - _SHOWN:,} more: --json lists all")
    titles = {
        "broken": "broken files",
        "altered": "altered since the last check, though size and time are not",
        "duplicates": "groups of images with the same pixels",
        "crossing": "such groups on two sides of the split",
        "confused": "such groups in two classes",
    }
    counts = [("whole images", found.files - len(found.broken))]
    counts += [(title, len(getattr(found, key))) for key, title in titles.items()]
    screen.print(
        table(escape(catalogue.describe()), ["found", "number"], [[name, f"{count:,}"] for name, count in counts])
    )
    screen.print(f"sums are recorded in {found.record}", markup=False, soft_wrap=True)
    by = "sizes and times, as files are broken" if found.broken else "content"
    screen.print(f"fingerprint by {by}: {catalogue.fingerprint}")
