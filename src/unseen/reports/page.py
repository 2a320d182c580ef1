"""The page: all parts of a report put together as one HTML file that loads nothing and runs nothing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from unseen.analyses import read_analyses
from unseen.analyses.shift.ladder_results import ladder_results
from unseen.analyses.shift.transfer import pair_of, transfers
from unseen.core.files import write_text
from unseen.core.text import clean, cut, duration, full, listed, number
from unseen.reports.charts import curve, curve_chart, difference_bar, difference_range, score_bar, score_chart
from unseen.reports.embedding_map import embedding_map
from unseen.reports.failure_gallery import failure_gallery
from unseen.reports.gallery import gallery
from unseen.reports.shift_views import View, ladder_view, score_view, transfer_view
from unseen.studies.results.content import Content, Row
from unseen.studies.results.load import load_content
from unseen.studies.results.paired import PairedComparison, paired_differences, paired_texts
from unseen.studies.results.ranking import MethodScores, Ranking, are_percentages, protocol_fields, rankings

MOST_COLUMNS = 5  # scores in the ranking table; the others follow in a table of their own
BESIDE_MAIN = ("map@r", "map@1000", "nmi", "f1")  # the scores to show beside recall@1
MOST_DRAWN = 2  # rankings with maps and neighbours: the hardest ones


def collect(folder: Path) -> Content:
    """The results of a study or run as far as it is finished, with its finished analyses."""
    return replace(load_content(folder), pictures=read_analyses(folder))


def build_report(content: Content) -> str:
    """The report as HTML; equal contents give equal strings."""
    tables = rankings(content)
    percent = are_percentages(content)
    hard = hardest(tables)
    ladders = ladder_results(content)
    on_ladders = {(ladder.data, rung.split) for ladder in ladders for rung in ladder.rungs}
    # Rungs and transfer pairs have charts of their own; there may be many, and their curves would bury the rest.
    own = [table for table in tables if (table.data, table.split) not in on_ladders and pair_of(table) is None]
    return _template().render(
        content=content,
        tables=[_table_view(content, table, percent, is_folded=table not in own) for table in tables],
        has_own_tables=bool(own),
        ladders=[ladder_view(content, ladder, percent) for ladder in ladders],
        transfers=[transfer_view(transfer, percent) for transfer in transfers(content)],
        charts=_score_charts(own, percent),
        curves=_curve_views([table for table in tables if table in own or table in hard], percent),
        maps=[view for table in hard if (view := _map_view(content, table))],
        galleries=[view for table in hard if (view := _gallery_view(content, table))],
        failures=[view for table in hard if (view := _failure_view(content, table))],
        has_all_drawn=len(hard) == len(tables),
        definitions=_definitions(content),
        seconds=duration(math.fsum(row.seconds for row in content.rows)),
    )


def write_report(content: Content, path: Path) -> None:
    """Build the report and write it to the path."""
    write_text(path, build_report(content))


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("unseen.reports", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Every value on its way to the page passes here, so that no control character gets through.
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
    """The scores for the ranking table: the first one, then the most informative ones, then others.

    >>> columns(["recall@1", "recall@2", "recall@4", "precision@1", "map@r", "nmi", "f1"])
    ('recall@1', 'map@r', 'nmi', 'f1', 'recall@2')
    """
    beside = [score for name in BESIDE_MAIN for score in scores if score.lower() == name]
    return tuple(dict.fromkeys([*scores[:1], *beside, *scores]))[:MOST_COLUMNS]


def _table_view(content: Content, table: Ranking, percent: Mapping[str, bool], *, is_folded: bool) -> View:
    shown = columns(table.scores)
    rest = tuple(score for score in table.scores if score not in shown)
    main = table.main_score
    values = [value for entry in table.entries for value in entry.summary(main).values if math.isfinite(value)]

    def row(entry: MethodScores) -> View:
        return {
            "entry": entry,
            "bar": score_bar(entry, main, max(values), percent=percent[main]) if values else None,
            "cells": [_cell_view(table, entry, score, percent) for score in shown],
            "others": [_cell_view(table, entry, score, percent) for score in rest],
            "facts": _facts(entry),
            "seconds": duration(math.fsum(row.seconds for row in entry.rows)),
        }

    return {
        "ranking": table,
        "is_folded": is_folded,
        "columns": [(score, percent[score]) for score in shown],
        "others": [(score, percent[score]) for score in rest],
        "lines": {"trained": list(map(row, table.trained)), "untrained": list(map(row, table.untrained))},
        "headline": _headline(content, table, percent),
        "counts": table.entries[0].rows[0].counts,
        "paired": _paired_view(paired_differences(content, table), percent),
    }


def _paired_view(paired: PairedComparison | None, percent: Mapping[str, bool]) -> View | None:
    """The paired differences of one ranking: a bar for its main score, numbers for all; None without any."""
    if paired is None or not (paired.entries or paired.left_out):
        return None
    main = paired.scores[0]
    limits = difference_range([own.scores[main] for own in paired.entries if main in own.scores])
    lines = []
    for own in paired.entries:
        cells: list[View] = []
        for score in paired.scores:
            difference = own.scores.get(score)
            if difference is None:
                cells.append({})
                continue
            unclear = "no clear difference" if difference.low <= 0 <= difference.high else ""
            texts = paired_texts(difference, percent=percent[score])
            verdict = difference.verdict
            cells.append({"texts": texts, "verdict": verdict, "verdict_text": verdict or unclear})
        bar = difference_bar(own.scores[main], limits, percent=percent[main]) if main in own.scores else None
        lines.append({"entry": own.entry, "bar": bar, "cells": cells, "seeds": len(own.seeds)})
    return {"of": paired, "columns": [(score, percent[score]) for score in paired.scores], "lines": lines}


def _cell_view(table: Ranking, entry: MethodScores, score: str, percent: Mapping[str, bool]) -> View:
    summary = entry.summary(score)
    seeds = len(summary.values)
    view = score_view(summary, entry.interval(score), percent=percent[score])
    return view | {"is_best": table.is_best(entry, score), "of": seeds if seeds < entry.seeds else None}


def _headline(content: Content, table: Ranking, percent: Mapping[str, bool]) -> View:
    """The parts of the sentence on one ranking: the best method, then what is possible without training."""
    main = table.main_score
    unit = " %" if percent.get(main) else ""

    def score_of(entry: MethodScores) -> tuple[str, str]:
        text = number(entry.summary(main).mean, percent=percent[main])
        return entry.method, text if text == "not finite" else text + unit

    return {
        "where": content.split_descriptions.get(table.split, ""),
        "score": main,
        "is_recall_at_1": main == "recall@1",
        "best": score_of(table.trained[0]) if table.trained and main in percent else None,
        "untrained": [score_of(entry) for entry in table.untrained] if main in percent else [],
    }


def _facts(entry: MethodScores) -> list[View]:
    """The full protocol of a method: each field once where seeds agree, else the value of each seed."""
    by_seed = [(row.seed, protocol_fields(row) | {("seconds",): duration(row.seconds)}) for row in entry.rows]
    facts: list[View] = []
    for path in dict.fromkeys(path for _, fields in by_seed for path in fields):
        if path[0] == "definitions":
            continue  # they have a section of their own
        values = [(seed, fields.get(path, "not stated")) for seed, fields in by_seed]
        agree = len({value for _, value in values}) == 1
        facts.append({"path": path, "value": values[0][1] if agree else None, "by_seed": [] if agree else values})
    return facts


def _definitions(content: Content) -> list[tuple[str, list[str]]]:
    sentences: dict[str, dict[str, None]] = {}
    for row in content.rows:
        for score, sentence in row.definitions.items():
            sentences.setdefault(score, {})[sentence] = None
    return [(score, list(own)) for score, own in sentences.items()]


def _score_charts(tables: Sequence[Ranking], percent: Mapping[str, bool]) -> list[View]:
    groups: dict[tuple[str, str, str], list[Ranking]] = {}
    for table in tables:
        groups.setdefault((table.data, table.main_score, table.why_apart), []).append(table)
    return [
        {"data": data, "score": main, "why_apart": why_apart, "splits": [table.split for table in own], "chart": chart}
        for (data, main, why_apart), own in groups.items()
        if (chart := score_chart(own, percent=percent.get(main, False)))
    ]


def _curve_views(tables: Sequence[Ranking], percent: Mapping[str, bool]) -> list[View]:
    positions: dict[str, int] = {}
    for table in tables:
        for method in sorted(entry.method for entry in table.trained):
            positions.setdefault(method, len(positions))
    views: list[View] = []
    for table in tables:
        histories = [epoch for entry in table.trained for row in entry.rows for epoch in row.history]
        names = [name for epoch in histories for name in epoch.get("validation") or ()]
        score = table.main_score if table.main_score in names else next(iter(names), "")
        curves = {entry.method: curve(entry.rows, score) for entry in table.trained} if score else {}
        is_percent = percent.get(score, False)
        chart = curve_chart(curves, positions, f"Validation {score} of each method over epochs", percent=is_percent)
        losses = []
        for entry in table.trained:
            loss = {entry.method: curve(entry.rows, "loss")}
            small = curve_chart(loss, positions, "Training loss over epochs", percent=False, is_small=True)
            if small:
                losses.append({"method": entry.method, "chart": small})
        if chart or losses:
            views.append({"ranking": table, "score": score, "percent": is_percent, "chart": chart, "losses": losses})
    return views


def _with_sample(entries: Sequence[MethodScores]) -> list[Row]:
    """For each method its first seed with a stored sample to draw."""
    return [rows[0] for entry in entries if (rows := [row for row in entry.rows if row.sample is not None])]


def _drawn_rows(content: Content, table: Ranking) -> list[Row]:
    """The best trained row that can be drawn, and beside it an untrained one."""
    untrained = _with_sample(table.untrained)
    untrained.sort(key=lambda row: row.method != content.compare_with)
    return _with_sample(table.trained)[:1] + untrained[:1]


def _map_view(content: Content, table: Ranking) -> View | None:
    rows = _drawn_rows(content, table)
    maps = [(row, view) for row in rows if row.sample and (view := embedding_map(row.sample, row.method))]
    if not maps:
        return None
    how = listed(dict.fromkeys(view.how for _, view in maps))
    return {"ranking": table, "maps": maps, "how": how, "legend": maps[-1][1].legend}


def _gallery_view(content: Content, table: Ranking) -> View | None:
    rows = _drawn_rows(content, table)
    queries = gallery([(row.method, row.sample) for row in rows if row.sample is not None])
    return {"ranking": table, "queries": queries, "rows": rows} if queries else None


def _failure_view(content: Content, table: Ranking) -> View | None:
    """The failures of the best method that stored them."""
    for row in _with_sample(table.trained) + _drawn_rows(content, table):
        if row.sample is not None and row.sample.failures is not None:
            return {"ranking": table, "row": row, "gallery": failure_gallery(row.sample.failures)}
    return None
