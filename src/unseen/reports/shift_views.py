"""What the page shows of ladders and of transfer: charts, and tables in words and numbers."""

import math
from collections.abc import Sequence
from typing import Any

from unseen.analyses.shift.capacity import capacity
from unseen.analyses.shift.ladder_results import LadderResult, MethodCurve, ladder_results
from unseen.analyses.shift.structure_trends import Relation, Trend, relations
from unseen.analyses.shift.transfer import Transfer, transfers
from unseen.core.text import number
from unseen.figures.style import SeriesStyle
from unseen.reports.shift_charts import capacity_chart, distance_chart, method_panel, method_styles, relation_chart
from unseen.studies.results.content import Content
from unseen.studies.results.ranking import Summary, are_percentages, cell, score_names

MISSING = "–"


def climb_views(content: Content) -> list[dict[str, Any]]:
    """One view for each ladder of the study."""
    percent = are_percentages(content)
    return [_climb_view(content, climb, percent) for climb in ladder_results(content)]


def _climb_view(content: Content, climb: LadderResult, percent: dict[str, bool]) -> dict[str, Any]:
    main = climb.main_score
    is_percent = percent[main]
    styles = method_styles(climb)
    panels = [
        {"method": course.method, "drawing": drawing}
        for course, style in zip(climb.curves, styles, strict=True)
        if (drawing := method_panel(climb, course, style, main, percent=is_percent))
    ]
    backbones = capacity(climb, main)
    found = relations(content, climb)
    by_method = {course.method: style for course, style in zip(climb.curves, styles, strict=True) if course.is_trained}
    aggregates = [course.aggregated(main, climb.distances()) for course in climb.curves]
    return {
        "climb": climb,
        "score": main,
        "percent": is_percent,
        "drawing": distance_chart(climb, main, percent=is_percent),
        "panels": panels,
        "has_intervals": any(interval for course in climb.curves for interval in course.intervals(main)),
        "lines": _lines(climb, aggregates, percent=is_percent),
        "standings": _standing_lines(climb),
        "incomplete": [course.method for course in climb.curves if not course.is_complete(main)],
        "headline": _headline(climb, aggregates, percent=is_percent),
        "aggregates": _aggregates(content, climb, percent),
        "capacity": capacity_chart(climb, backbones, main, percent=is_percent) if backbones else None,
        "backbones": backbones,
        "structure": _structure_view(found, main, by_method, percent),
    }


def _headline(climb: LadderResult, aggregates: Sequence[Summary], *, percent: bool) -> dict[str, Any]:
    """What the ladder says in a sentence: who holds best over all distances, and what is there without training."""
    unit = " %" if percent else ""
    said = [
        (course, number(summary.mean, percent=percent) + unit)
        for course, summary in zip(climb.curves, aggregates, strict=True)
        if math.isfinite(summary.mean)
    ]
    best = next(((course.method, text) for course, text in said if course.is_trained), None)
    return {
        "best": None if climb.differences else best,
        "untrained": [(course.method, text) for course, text in said if not course.is_trained],
        "near": f"{climb.distances()[0]:.3g}",
        "far": f"{climb.distances()[-1]:.3g}",
    }


def _figure(summary: Summary, interval: tuple[float, float] | None, *, percent: bool) -> dict[str, Any]:
    """A number as the template's macro `figure` writes it."""
    deviation = summary.deviation
    return {
        "mean": number(summary.mean, percent=percent) if summary.values else MISSING,
        "deviation": MISSING if deviation is None else number(deviation, percent=percent),
        "is_best": False,
        "of": None,
        "interval": None if interval is None else [number(end, percent=percent) for end in interval],
    }


def _lines(climb: LadderResult, aggregates: Sequence[Summary], *, percent: bool) -> list[dict[str, Any]]:
    main, distances = climb.main_score, climb.distances()
    return [
        {
            "method": course.method,
            "is_trained": course.is_trained,
            "aggregated": _figure(summary, course.aggregated_interval(main, distances), percent=percent),
            "cells": [
                _figure(own, interval, percent=percent)
                for own, interval in zip(course.summaries(main), course.intervals(main), strict=True)
            ],
        }
        for course, summary in zip(climb.curves, aggregates, strict=True)
    ]


def _standing_lines(climb: LadderResult) -> list[dict[str, Any]]:
    standings = climb.rank_histories(climb.main_score)
    shares = [abs(share) for standing in standings.values() for share in standing.shares if math.isfinite(share)]
    span = max(shares, default=0.0)
    return [
        {
            "method": climb.curves[place].method,
            "ranks": [
                {"rank": f"{rank:g}", "change": change}
                for rank, change in zip(standing.ranks, (0.0, *standing.changes), strict=True)
            ],
            "shares": [
                {"text": f"{100 * share:+.1f}" if math.isfinite(share) else MISSING, **_heat(share, span)}
                for share in standing.shares
            ],
        }
        for place, standing in standings.items()
    ]


def _heat(value: float, span: float) -> dict[str, Any]:
    """The colour of a cell: its side of zero and its strength in per cent."""
    if not math.isfinite(value) or not span > 0:
        return {"side": "", "strength": 0}
    return {"side": "above" if value > 0 else "below", "strength": round(55 * min(1.0, abs(value) / span))}


def _aggregates(content: Content, climb: LadderResult, percent: dict[str, bool]) -> dict[str, Any]:
    """The aggregate of every score of every method."""
    scores = [name for name in score_names(content) if name in climb.scores]

    def row(course: MethodCurve) -> list[str]:
        found = (course.aggregated(score, climb.distances()) for score in scores)
        return [
            number(summary.mean, percent=percent[score]) if summary.values else MISSING
            for score, summary in zip(scores, found, strict=True)
        ]

    return {
        "scores": [(score, percent[score]) for score in scores],
        "rows": [(course.method, row(course)) for course in climb.curves],
    }


def _structure_view(
    found: Sequence[Relation], main: str, styles: dict[str, SeriesStyle], percent: dict[str, bool]
) -> dict[str, Any] | None:
    """A chart of the main score over each structure score, and the correlations of all pairs of scores."""
    if not any(math.isfinite(each.everywhere.correlation.pearson) for each in found):
        return None
    retrieval = list(dict.fromkeys(each.retrieval for each in found))
    drawn = main if main in retrieval else retrieval[0]
    table: dict[str, list[dict[str, Any]]] = {}
    for each in found:
        table.setdefault(each.structure, []).append(_correlated(each.everywhere))
    charts = [
        {"structure": each.structure, "drawing": drawing, "correlation": str(each.everywhere.correlation)}
        for each in found
        if each.retrieval == drawn and (drawing := relation_chart(each, styles, percent=percent[drawn]))
    ]
    has_start = any(point.is_start for each in found for point in each.points)
    return {
        "score": drawn,
        "retrieval": retrieval,
        "table": table,
        "charts": charts,
        "has_start": has_start,
        "start": [(each.structure, str(each.at_start.correlation)) for each in found if each.retrieval == drawn],
    }


def _correlated(trend: Trend) -> dict[str, Any]:
    pearson, spearman = trend.correlation.pearson, trend.correlation.spearman
    if not math.isfinite(pearson):
        return {"text": MISSING, "title": str(trend.correlation), "side": "", "strength": 0}
    return {
        "text": f"{pearson:+.2f} / {spearman:+.2f}",
        "title": f"{trend.correlation}, scaled slope {trend.scaled_slope:+.2f}",
        **_heat(pearson, 1.0),
    }


def transfer_views(content: Content) -> list[dict[str, Any]]:
    """One view for each data set of several parts: a matrix for each trained method, and the un-trained rows."""
    percent = are_percentages(content)
    return [_transfer_view(transfer, percent) for transfer in transfers(content)]


def _transfer_view(transfer: Transfer, percent: dict[str, bool]) -> dict[str, Any]:
    first = next(iter(transfer.tables.values()))
    main = first.main_score
    is_low_best = main in first.lower_is_better
    gains = {
        (method, train, test): transfer.mean(method, train, test, main) - transfer.baseline(test, main)
        for method, is_trained in transfer.methods.items()
        if is_trained
        for train in transfer.trained_on
        for test in transfer.tested_on
    }
    span = max((abs(gain) for gain in gains.values() if math.isfinite(gain)), default=0.0)
    crossed = [gain for (_, train, test), gain in gains.items() if train != test and math.isfinite(gain)]

    def shown(method: str, train: str, test: str) -> dict[str, Any]:
        entry = transfer.entry(method, train, test)
        mean, deviation = (MISSING, MISSING) if entry is None else cell(entry, main, percent=percent[main])
        gain = gains.get((method, train, test), math.nan)
        return {
            "mean": mean,
            "deviation": deviation,
            "gain": f"{100 * gain:+.1f}" if percent[main] else f"{gain:+.3g}",
            "has_gain": math.isfinite(gain),
            **_heat(-gain if is_low_best else gain, span),
        }

    return {
        "transfer": transfer,
        "score": main,
        "percent": percent[main],
        "crossed": len(crossed),
        "better": sum(gain < 0 if is_low_best else gain > 0 for gain in crossed),
        "matrices": [
            {
                "method": method,
                "rows": [
                    (train, [shown(method, train, test) for test in transfer.tested_on])
                    for train in transfer.trained_on
                ],
            }
            for method, is_trained in transfer.methods.items()
            if is_trained
        ],
        "untrained": [
            (method, [_untrained(transfer, method, test, main, percent) for test in transfer.tested_on])
            for method, is_trained in transfer.methods.items()
            if not is_trained
        ],
    }


def _untrained(transfer: Transfer, method: str, test: str, score: str, percent: dict[str, bool]) -> str:
    """What an un-trained method scores on a part, wherever it was measured: nothing was trained there."""
    means = (transfer.mean(method, train, test, score) for train in transfer.trained_on)
    known = next((mean for mean in means if math.isfinite(mean)), math.nan)
    return number(known, percent=percent[score]) if math.isfinite(known) else MISSING
