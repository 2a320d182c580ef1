"""The readable tables at the end of a command."""

import math

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from unseen.analyses.shift.ladder_results import LadderResult, ladder_results
from unseen.core.text import cut, number, plain
from unseen.reports.page import columns
from unseen.studies.results.content import Content
from unseen.studies.results.paired import Paired, paired_differences, paired_texts
from unseen.studies.results.ranking import Ranking, are_percentages, cell, rankings

_FRAME = 18  # letters for rank, seeds and the lines between
_COLUMN = 15  # letters for one score with its deviation
_PAIRED_COLUMN = 26  # letters for one difference, with its interval below
_AGGREGATED = 36  # letters for the aggregate, the ranks on the first and last rung, and the lines between
_RUNG = 10  # letters for a score on a rung


def terminal_table(content: Content, width: int = 80) -> list[RenderableType]:
    """One table for each data set and split, a line where rows were not ranked, a line for each failed cell.

    With a baseline the paired differences to it follow each table, with a line for each that is left out.
    The rungs of a ladder have one table together: the aggregated score, then as many rungs as fit.

    Names of methods stay whole: where the terminal is narrow, scores are left out from the right.
    """
    percent = are_percentages(content)
    parts: list[RenderableType] = []
    found = ladder_results(content)
    parts.extend(_climb(climb, percent[climb.main_score], width) for climb in found)
    on_ladders = {(climb.data, step.split) for climb in found for step in climb.steps}
    for table in rankings(content):
        if (table.data, table.split) in on_ladders and not table.differences:
            continue
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


def _climb(climb: LadderResult, percent: bool, width: int) -> Table:
    score = climb.main_score
    what = "ladder by groups" if climb.is_by_groups else f"ladder {cut(plain(climb.ladder), 16)}"
    title = f"{cut(plain(climb.data), 60)} / {what}: {cut(plain(score), 20)}"
    drawn = Table(
        title=Text(title + (" %" if percent else ""), style="bold"), title_justify="left", header_style="bold"
    )
    longest = min(max(len(cut(plain(course.method), 60)) for course in climb.curves), width // 2)
    drawn.add_column("method", min_width=longest)
    drawn.add_column("aggregated", justify="right", no_wrap=True)
    drawn.add_column("rank", justify="right", no_wrap=True)
    shown = _evenly(len(climb.steps), (width - longest - _AGGREGATED) // _RUNG)
    for place in shown:
        step = climb.steps[place]
        head = f"{cut(plain(step.group), _RUNG)}\n" if step.group else f"{step.number}: "
        drawn.add_column(Text(f"{head}{step.class_distance:.3g}"), justify="right", no_wrap=True)
    standings = climb.rank_histories(score)
    for place, course in enumerate(climb.curves):
        summary = course.aggregated(score, climb.distances())
        total = Text(number(summary.mean, percent=percent) if summary.values else "–")
        if summary.deviation is not None:
            total.append(f" ± {number(summary.deviation, percent=percent)}", style="dim")
        ranks = standings[place].ranks if place in standings else ()
        means = course.means(score)
        cells = [number(means[rung], percent=percent) if math.isfinite(means[rung]) else "–" for rung in shown]
        name = Text(cut(plain(course.method), 60), style="" if course.is_trained else "italic")
        drawn.add_row(name, total, f"{ranks[0]:g} → {ranks[-1]:g}" if ranks else "–", *cells)
    return drawn


def _evenly(count: int, most: int) -> list[int]:
    """At most so many places of `count`, the first and the last among them, at least these two."""
    most = max(2, min(count, most))
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})
