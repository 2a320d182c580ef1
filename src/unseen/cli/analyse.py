"""`unseen analyse`: analyses of finished studies, one command each, made from the signatures of the registered ones."""

import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from unseen.cli import options
from unseen.core.registry import analysis

if TYPE_CHECKING:
    from typer._click import Command, Context

Folder = Annotated[Path, typer.Argument(help="The folder of a finished study.")]


class AnalysisCommands(TyperGroup):
    """The registered analyses as commands; one is imported only when it is called."""

    def list_commands(self, ctx: "Context") -> list[str]:
        """The names of all analyses."""
        return analysis.names()

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """An analysis as the list of commands shows it: its name and summary, without its options."""
        return TyperCommand(cmd_name, help=analysis.entry(cmd_name).summary) if cmd_name in analysis else None

    def resolve_command(self, ctx: "Context", args: list[str]) -> "tuple[str | None, Command | None, list[str]]":
        """The complete command of the analysis that is called."""
        name, *rest = args
        if name not in analysis:
            raise analysis.unknown(name)
        return name, command_of(name), rest


app = typer.Typer(
    cls=AnalysisCommands,
    help="Analyse a finished study: spectra of its embeddings, generalisation over a ladder, few-shot gains, ...",
    no_args_is_help=True,
)


def command_of(name: str) -> "Command":
    """The command of an analysis: its folder, an option for each keyword of its signature, and the cache."""
    function = analysis[name]
    hints = get_type_hints(function)
    help_texts = table_entries(inspect.getdoc(function) or "")
    own = [each for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
    lists = [each.name for each in own if _is_list(hints[each.name])]

    def command(folder: Path, cache: Path | None, **settings: Any) -> None:
        split = {key: [part.strip() for part in settings[key].split(",") if part.strip()] for key in lists}
        analyse(name, folder, {**settings, **split}, cache)

    parameters = [_keyword("folder", Folder)]
    for each in own:
        annotation, default = hints[each.name], each.default
        if each.name in lists:
            annotation, default = str, ",".join(map(str, default))
        option = typer.Option(help=help_texts.get(each.name, ""))
        parameters.append(_keyword(each.name, Annotated[annotation, option], default))
    parameters.append(_keyword("cache", options.Cache, None))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    single = typer.Typer(add_completion=False)
    single.command(name, help=analysis.entry(name).summary)(command)
    return typer.main.get_command(single)


def _keyword(name: str, annotation: object, default: object = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _is_list(annotation: object) -> bool:
    """Whether a setting holds several values, which are typed with commas between them."""
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Sequence)


def table_entries(docstring: str) -> dict[str, str]:
    """The rows of the first table of a docstring: name -> description.

    >>> table_entries('''Gains.
    ...
    ... =====  ==========
    ... shots  Images per
    ...        class.
    ... seeds  All.
    ... =====  ==========
    ... ''')
    {'shots': 'Images per class.', 'seeds': 'All.'}
    """
    entries: dict[str, str] = {}
    _, *tables = re.split(r"^=+ +=+$", docstring, maxsplit=2, flags=re.MULTILINE)
    for line in tables[0].strip("\n").splitlines() if tables else []:
        if line.startswith(" ") and entries:
            entries[next(reversed(entries))] += " " + line.strip()
        else:
            name, _, description = line.partition(" ")
            entries[name] = description.strip()
    return entries


def analyse(name: str, folder: Path, settings: Mapping[str, object], cache: Path | None = None) -> None:
    """Run an analysis of a study, print it, and write it into the study's folder."""
    from unseen.analyses import AnalysisInputs, run_analysis
    from unseen.core.console import console, progress_bar, table

    with progress_bar(name, total=1) as bar:
        result, path = run_analysis(name, AnalysisInputs(folder, cache, bar.set), settings)
    screen = console()
    if result.printed_columns:
        screen.print(table(name, result.printed_columns, result.terminal_rows(), left=3))
    for remark in result.remarks:
        screen.print(remark, markup=False, soft_wrap=True)
    picture, numbers = path.with_suffix(".png"), path.with_suffix(".csv")
    screen.print(
        f"wrote {picture}, and its numbers as {path.name} and {numbers.name} beside it", markup=False, soft_wrap=True
    )
