"""The readable tables at the end of a command."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from unseen.reports.content import Content
from unseen.reports.page import columns
from unseen.reports.paired import Paired, paired_differences, paired_texts
from unseen.reports.ranking import Ranking, are_percentages, cell, rankings
from unseen.reports.text import cut, plain

_FRAME = 18  # letters for rank, seeds and the lines between
_COLUMN = 15  # letters for one score with its deviation
_PAIRED_COLUMN = 26  # letters for one difference, with its interval below


def terminal_table(content: Content, width: int = 80) -> list[RenderableType]:
    """One table for each data set and split, a line where rows were not ranked, a line for each failed cell.

    With a baseline the paired differences to it follow each table, with a line for each that is left out.

    Names of methods stay whole: where the terminal is narrow, scores are left out from the right.
    """
    percent = are_percentages(content)
    parts: list[RenderableType] = []
    for table in rankings(content):
        parts.append(_table(table, percent, width))
        if table.differences:
            fields = ", ".join(" › ".join(difference.path) for difference in table.differences)
            parts.append(
                Text(cut(plain(f"Not ranked: unlike protocols, rows differ in {fields}"), 400), style="yellow")
            )
        paired = paired_differences(content, table)
        if paired is not None and paired.entries:
            parts += [_paired_table(paired, percent, width), Text(plain(paired.words), style="dim")]
        for method, why in () if paired is None else paired.left_out:
            words = f"no paired difference: {cut(plain(method), 60)}: {cut(plain(why), 400)}"
            parts.append(Text(words, style="yellow"))
    for failed in content.failed:
        labels = " / ".join(cut(plain(label), 40) for label in failed.labels)
        parts.append(Text(f"failed: {labels}: {cut(plain(failed.sentence), 400)}", style="red"))
    return parts


def _table(table: Ranking, percent: dict[str, bool], width: int) -> Table:
    # Text objects, not strings: rich would read [red] in a name as an instruction.
    title = Text(f"{cut(plain(table.data), 60)} / {cut(plain(table.split), 60)}", style="bold")
    drawn = Table(title=title, title_justify="left", header_style="bold")
    drawn.add_column("#", justify="right", style="dim")
    longest = max(len(cut(plain(entry.method), 60)) for entry in table.entries)
    drawn.add_column("method", min_width=min(longest, width // 2))
    shown = columns(table.scores)[: max(1, (width - min(longest, width // 2) - _FRAME) // _COLUMN)]
    for score in shown:
        unit = " %" if percent[score] else ""
        drawn.add_column(Text(cut(plain(score), 20) + unit), justify="right", no_wrap=True)
    drawn.add_column("seeds", justify="right")
    for position, entry in enumerate(table.entries):
        cells = []
        for score in shown:
            mean, deviation = cell(entry, score, percent=percent[score])
            is_best = entry.is_trained and entry.summary(score).mean == table.best.get(score)
            text = Text(mean, style="bold green" if is_best else "")
            cells.append(text.append(f" ± {deviation}", style="dim") if mean != "–" else text)
        name = Text(cut(plain(entry.method), 60), style="" if entry.is_trained else "italic")
        is_last_trained = position == len(table.trained) - 1 and bool(table.untrained)
        drawn.add_row(str(entry.rank or ""), name, *cells, str(entry.seeds), end_section=is_last_trained)
    return drawn


def _paired_table(paired: Paired, percent: dict[str, bool], width: int) -> Table:
    title = Text(f"paired difference to {cut(plain(paired.baseline), 60)}", style="bold")
    drawn = Table(title=title, title_justify="left", header_style="bold")
    longest = max(len(cut(plain(own.entry.method), 60)) for own in paired.entries)
    drawn.add_column("method", min_width=min(longest, width // 2))
    shown = paired.scores[: max(1, (width - min(longest, width // 2) - _FRAME) // _PAIRED_COLUMN)]
    for score in shown:
        unit = " points" if percent[score] else ""
        drawn.add_column(Text(cut(plain(score), 20) + unit), justify="right", no_wrap=True)
    drawn.add_column("seeds", justify="right")
    styles = {"better": "green", "worse": "red", "": ""}
    for own in paired.entries:
        cells = []
        for score in shown:
            found = own.scores.get(score)
            if found is None:
                cells.append(Text("–"))
                continue
            value, deviation, interval = paired_texts(found, percent=percent[score])
            text = Text(" ".join(filter(None, [value, found.verdict])), style=styles[found.verdict])
            cells.append(text.append(f" ± {deviation}\n{interval}", style="dim"))
        drawn.add_row(Text(cut(plain(own.entry.method), 60)), *cells, str(len(own.seeds)))
    return drawn
