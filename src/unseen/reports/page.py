"""The page: all parts of a report put together as one HTML file that loads nothing and runs nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from unseen.analyses.shift.transfer import pair_of
from unseen.core.files import write_text
from unseen.core.text import clean, cut, duration, full, listed, number
from unseen.reports.charts import curve, curve_chart, difference_bar, difference_range, score_bar, score_chart
from unseen.reports.embedding_map import embedding_map
from unseen.reports.failure_gallery import failure_gallery
from unseen.reports.gallery import gallery
from unseen.reports.shift_views import climb_views, transfer_views
from unseen.studies.results.content import Content, Row
from unseen.studies.results.paired import Paired, paired_differences, paired_texts
from unseen.studies.results.ranking import Entry, Ranking, are_percentages, cell, rankings, stamp

MOST_COLUMNS = 5  # scores beside each other in the ranking; the others follow in a table of their own
BESIDE = ("map@r", "map@1000", "nmi", "f1")  # what tells most beside recall@1
MOST_DRAWN = 2  # rankings of which maps and neighbours are drawn: the hardest ones


def build_report(content: Content) -> str:
    """The report as HTML; the same content gives the same text."""
    tables = rankings(content)
    percent = are_percentages(content)
    drawn = hardest(tables)
    climbed = climb_views(content)
    on_ladders = {(view["climb"].data, step.split) for view in climbed for step in view["climb"].steps}
    # Rungs and pairs have charts of their own; where there are many of them, curves of all would bury the rest.
    own = [table for table in tables if (table.data, table.split) not in on_ladders and pair_of(table) is None]
    return _template().render(
        content=content,
        tables=[_table_view(content, table, percent, is_folded=table not in own) for table in tables],
        has_own_tables=bool(own),
        climbs=climbed,
        transfers=transfer_views(content),
        charts=_score_charts(own, percent),
        curves=_curve_views([table for table in tables if table in own or table in drawn], percent),
        maps=[view for table in drawn if (view := _map_view(content, table))],
        galleries=[view for table in drawn if (view := _gallery_view(content, table))],
        failures=[view for table in drawn if (view := _failure_view(content, table))],
        has_all_drawn=len(drawn) == len(tables),
        definitions=_definitions(content),
        seconds=duration(math.fsum(row.seconds for row in content.rows)),
    )


def write_report(content: Content, path: Path) -> None:
    """Build the report and put it at the path in one step."""
    write_text(path, build_report(content))


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("unseen.reports", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Every value on its way to the page passes here: nothing invisible gets by because a template forgot it.
        finalize=lambda value: clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    environment.filters.update(cut=cut, full=full)
    return environment.get_template("report.html")


def hardest(tables: Sequence[Ranking]) -> list[Ranking]:
    """The rankings to draw maps of: those whose best trained (else best) method scores lowest, in page order."""

    def ease(table: Ranking) -> float:
        mean = table.entries[0].summary(table.main_score).mean
        return math.inf if math.isnan(mean) else (-mean if table.main_score in table.lower_is_better else mean)

    chosen = sorted(range(len(tables)), key=lambda index: ease(tables[index]))[:MOST_DRAWN]
    return [tables[index] for index in sorted(chosen)]


def columns(scores: Sequence[str]) -> tuple[str, ...]:
    """The scores for the ranking table: the first one, then those that tell most beside it, then others.

    >>> columns(["recall@1", "recall@2", "recall@4", "precision@1", "map@r", "nmi", "f1"])
    ('recall@1', 'map@r', 'nmi', 'f1', 'recall@2')
    """
    beside = [score for name in BESIDE for score in scores if score.lower() == name]
    return tuple(dict.fromkeys([*scores[:1], *beside, *scores]))[:MOST_COLUMNS]


@dataclass(frozen=True, eq=False)
class Line:
    """A row of the ranking table."""

    entry: Entry
    bar: Markup | None
    cells: tuple[dict[str, Any], ...]
    others: tuple[dict[str, Any], ...]
    facts: tuple[dict[str, Any], ...]
    seconds: str


def _table_view(content: Content, table: Ranking, percent: dict[str, bool], *, is_folded: bool) -> dict[str, Any]:
    shown = columns(table.scores)
    rest = tuple(score for score in table.scores if score not in shown)
    main = table.main_score
    values = [value for entry in table.entries for value in entry.summary(main).values if math.isfinite(value)]
    highest = max(values, default=0.0)
    lines = {}
    for kind, entries in (("trained", table.trained), ("untrained", table.untrained)):
        lines[kind] = [
            Line(
                entry=entry,
                bar=score_bar(entry, main, highest, percent=percent[main]) if values else None,
                cells=tuple(_cell_view(table, entry, score, percent) for score in shown),
                others=tuple(_cell_view(table, entry, score, percent) for score in rest),
                facts=tuple(_facts(entry)),
                seconds=duration(math.fsum(row.seconds for row in entry.rows)),
            )
            for entry in entries
        ]
    return {
        "ranking": table,
        "is_folded": is_folded,
        "columns": [(score, percent[score]) for score in shown],
        "others": [(score, percent[score]) for score in rest],
        "lines": lines,
        "headline": _headline(content, table, percent),
        "counts": table.entries[0].rows[0].counts,
        "paired": _paired_view(paired_differences(content, table), percent),
    }


def _paired_view(paired: Paired | None, percent: dict[str, bool]) -> dict[str, Any] | None:
    """The paired differences of one ranking, drawn for its main score and in numbers for all; None for none."""
    if paired is None or not (paired.entries or paired.left_out):
        return None
    main = paired.scores[0]
    ends = difference_range([own.scores[main] for own in paired.entries if main in own.scores])
    lines = []
    for own in paired.entries:
        cells: list[dict[str, Any]] = []
        for score in paired.scores:
            found = own.scores.get(score)
            if found is None:
                cells.append({})
                continue
            words = found.verdict or ("not told apart" if found.low <= 0 <= found.high else "")
            texts = paired_texts(found, percent=percent[score])
            cells.append({"texts": texts, "verdict": found.verdict, "words": words})
        drawn = difference_bar(own.scores[main], ends, percent=percent[main]) if main in own.scores else None
        lines.append({"entry": own.entry, "bar": drawn, "cells": cells, "seeds": len(own.seeds)})
    return {"of": paired, "columns": [(score, percent[score]) for score in paired.scores], "lines": lines}


def _cell_view(table: Ranking, entry: Entry, score: str, percent: dict[str, bool]) -> dict[str, Any]:
    mean, deviation = cell(entry, score, percent=percent[score])
    summary = entry.summary(score)
    is_best = entry.is_trained and score in table.best and summary.mean == table.best[score]
    missing = entry.seeds - len(summary.values)
    interval = entry.interval(score)
    return {
        "mean": mean,
        "deviation": deviation,
        "is_best": is_best,
        "of": len(summary.values) if missing else None,
        "interval": None if interval is None else [number(end, percent=percent[score]) for end in interval],
    }


def _headline(content: Content, table: Ranking, percent: dict[str, bool]) -> dict[str, Any]:
    """What one ranking says, in the words of one sentence: the best method, then what is there without learning."""
    main = table.main_score
    unit = " %" if percent.get(main) else ""

    def said(entry: Entry) -> tuple[str, str]:
        text = number(entry.summary(main).mean, percent=percent[main])
        return entry.method, text if text == "not finite" else text + unit

    return {
        "where": content.split_descriptions.get(table.split, ""),
        "score": main,
        "is_recall_at_1": main == "recall@1",
        "best": said(table.trained[0]) if table.trained and main in percent else None,
        "untrained": [said(entry) for entry in table.untrained] if main in percent else [],
    }


def _facts(entry: Entry) -> list[dict[str, Any]]:
    """The protocol of a method, complete: each field once where seeds agree, else the value of each seed."""
    stamps = [(row.seed, stamp(row) | {("seconds",): duration(row.seconds)}) for row in entry.rows]
    facts: list[dict[str, Any]] = []
    for path in dict.fromkeys(path for _, fields in stamps for path in fields):
        if path[0] == "definitions":
            continue  # they have a section of their own
        found = [(seed, fields.get(path, "not stated")) for seed, fields in stamps]
        agree = len({value for _, value in found}) == 1
        facts.append({"path": path, "value": found[0][1] if agree else None, "by_seed": [] if agree else found})
    return facts


def _definitions(content: Content) -> list[tuple[str, list[str]]]:
    found: dict[str, dict[str, None]] = {}
    for row in content.rows:
        for score, sentence in row.definitions.items():
            found.setdefault(score, {})[sentence] = None
    return [(score, list(sentences)) for score, sentences in found.items()]


def _score_charts(tables: Sequence[Ranking], percent: dict[str, bool]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[Ranking]] = {}
    for table in tables:
        groups.setdefault((table.data, table.main_score), []).append(table)
    charts = []
    for (data, main), own in groups.items():
        drawing = score_chart(own, percent=percent.get(main, False))
        if drawing:
            charts.append({"data": data, "score": main, "splits": [table.split for table in own], "drawing": drawing})
    return charts


def _curve_views(tables: Sequence[Ranking], percent: dict[str, bool]) -> list[dict[str, Any]]:
    places: dict[str, int] = {}
    for table in tables:
        for method in sorted(entry.method for entry in table.trained):
            places.setdefault(method, len(places))
    views = []
    for table in tables:
        names = [
            name for e in table.trained for row in e.rows for h in row.history for name in h.get("validation") or ()
        ]
        score = table.main_score if table.main_score in names else next(iter(names), "")
        named = {entry.method: curve(entry.rows, score) for entry in table.trained} if score else {}
        words = f"Validation {score} of each method over epochs"
        is_percent = percent.get(score, False)
        losses = []
        for entry in table.trained:
            own = {entry.method: curve(entry.rows, "loss")}
            small = curve_chart(own, places, "Training loss over epochs", percent=False, is_small=True)
            if small:
                losses.append({"method": entry.method, "drawing": small})
        large = curve_chart(named, places, words, percent=is_percent)
        if large or losses:
            views.append({"ranking": table, "score": score, "percent": is_percent, "drawing": large, "losses": losses})
    return views


def _with_shown(entries: Sequence[Entry]) -> list[Row]:
    """For each method its first seed that kept something to draw."""
    return [kept[0] for entry in entries if (kept := [row for row in entry.rows if row.shown is not None])]


def _drawn_rows(content: Content, table: Ranking) -> list[Row]:
    """The best trained row that can be drawn, and beside it an un-trained one."""
    untrained = _with_shown(table.untrained)
    untrained.sort(key=lambda row: row.method != content.compare_with)
    return _with_shown(table.trained)[:1] + untrained[:1]


def _map_view(content: Content, table: Ranking) -> dict[str, Any] | None:
    rows = _drawn_rows(content, table)
    maps = [(row, view) for row in rows if row.shown and (view := embedding_map(row.shown, row.method))]
    if not maps:
        return None
    how = listed(dict.fromkeys(view.how for _, view in maps))
    return {"ranking": table, "maps": maps, "how": how, "legend": maps[-1][1].legend}


def _gallery_view(content: Content, table: Ranking) -> dict[str, Any] | None:
    rows = _drawn_rows(content, table)
    queries = gallery([(row.method, row.shown) for row in rows if row.shown is not None])
    return {"ranking": table, "queries": queries, "rows": rows} if queries else None


def _failure_view(content: Content, table: Ranking) -> dict[str, Any] | None:
    """Where the best method fails of which that is known."""
    for row in _with_shown(table.trained) + _drawn_rows(content, table):
        if row.shown is not None and row.shown.failures is not None:
            return {"ranking": table, "row": row, "gallery": failure_gallery(row.shown.failures)}
    return None
