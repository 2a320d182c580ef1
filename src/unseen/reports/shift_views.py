"""The page's parts on ladders and on transfer: charts, tables and sentences as the templates read them."""

import math
from collections.abc import Mapping, Sequence

from unseen.analyses.shift.capacity import capacity
from unseen.analyses.shift.ladder_results import LadderResult, MethodCurve
from unseen.analyses.shift.transfer import Transfer
from unseen.analyses.structure import Relation, Trend, relations
from unseen.core.text import number
from unseen.figures.style import SeriesStyle
from unseen.reports.shift_charts import capacity_chart, distance_chart, method_panel, method_styles, relation_chart
from unseen.studies.results.content import Content
from unseen.studies.results.ranking import MISSING, Summary, score_names

View = dict[str, object]
"""A part of the page as the template reads it."""


def ladder_view(content: Content, ladder: LadderResult, percent: Mapping[str, bool]) -> View:
    """The part on one ladder of the study."""
    main = ladder.main_score
    is_percent = percent[main]
    styled = list(zip(ladder.curves, method_styles(ladder), strict=True))
    backbones = capacity(ladder, main)
    aggregates = [curve.aggregated(main, ladder.distances()) for curve in ladder.curves]
    trained_styles = {curve.method: style for curve, style in styled if curve.is_trained}
    return {
        "ladder": ladder,
        "score": main,
        "percent": is_percent,
        "chart": distance_chart(ladder, main, percent=is_percent),
        "panels": [
            {"method": curve.method, "chart": chart}
            for curve, style in styled
            if (chart := method_panel(ladder, curve, style, main, percent=is_percent))
        ],
        "has_intervals": any(interval for curve in ladder.curves for interval in curve.intervals(main)),
        "lines": _lines(ladder, aggregates, percent=is_percent),
        "ranks": _rank_lines(ladder),
        "incomplete": [curve.method for curve in ladder.curves if not curve.is_complete(main)],
        "headline": _headline(ladder, aggregates, percent=is_percent),
        "aggregates": _aggregates(content, ladder, percent),
        "capacity": capacity_chart(ladder, backbones, main, percent=is_percent) if backbones else None,
        "backbones": backbones,
        "structure": _structure_view(relations(content, ladder), main, trained_styles, percent),
    }


def _headline(ladder: LadderResult, aggregates: Sequence[Summary], *, percent: bool) -> View:
    """The parts of the sentence on a ladder: the best aggregate, and what is possible without training."""
    unit = " %" if percent else ""
    scores = [
        (curve, number(summary.mean, percent=percent) + unit)
        for curve, summary in zip(ladder.curves, aggregates, strict=True)
        if math.isfinite(summary.mean)
    ]
    best = next(((curve.method, text) for curve, text in scores if curve.is_trained), None)
    return {
        "best": None if ladder.differences else best,
        "untrained": [(curve.method, text) for curve, text in scores if not curve.is_trained],
        "near": f"{ladder.distances()[0]:.3g}",
        "far": f"{ladder.distances()[-1]:.3g}",
    }


def score_view(summary: Summary, interval: tuple[float, float] | None, *, percent: bool) -> View:
    """A score as the template's macro `score` reads it."""
    mean, deviation = summary.texts(percent=percent)
    ends = None if interval is None else [number(end, percent=percent) for end in interval]
    return {"mean": mean, "deviation": deviation, "is_best": False, "of": None, "interval": ends}


def _lines(ladder: LadderResult, aggregates: Sequence[Summary], *, percent: bool) -> list[View]:
    main, distances = ladder.main_score, ladder.distances()
    return [
        {
            "method": curve.method,
            "is_trained": curve.is_trained,
            "aggregated": score_view(summary, curve.aggregated_interval(main, distances), percent=percent),
            "cells": [
                score_view(own, interval, percent=percent)
                for own, interval in zip(curve.summaries(main), curve.intervals(main), strict=True)
            ],
        }
        for curve, summary in zip(ladder.curves, aggregates, strict=True)
    ]


def _rank_lines(ladder: LadderResult) -> list[View]:
    histories = ladder.rank_histories(ladder.main_score)
    shares = [abs(share) for history in histories.values() for share in history.shares if math.isfinite(share)]
    largest = max(shares, default=0.0)
    return [
        {
            "method": ladder.curves[position].method,
            "ranks": [
                {"rank": f"{rank:g}", "change": change}
                for rank, change in zip(history.ranks, (0.0, *history.changes), strict=True)
            ],
            "shares": [
                {"text": f"{100 * share:+.1f}" if math.isfinite(share) else MISSING, **_heat(share, largest)}
                for share in history.shares
            ],
        }
        for position, history in histories.items()
    ]


def _heat(value: float, largest: float) -> View:
    """The colour of a cell: its side of zero and its strength in per cent."""
    if not math.isfinite(value) or not largest > 0:
        return {"side": "", "strength": 0}
    return {"side": "above" if value > 0 else "below", "strength": round(55 * min(1.0, abs(value) / largest))}


def _aggregates(content: Content, ladder: LadderResult, percent: Mapping[str, bool]) -> View:
    """The aggregate of every score of every method."""
    scores = [name for name in score_names(content) if name in ladder.scores]

    def row(curve: MethodCurve) -> list[str]:
        return [curve.aggregated(score, ladder.distances()).texts(percent=percent[score])[0] for score in scores]

    return {
        "scores": [(score, percent[score]) for score in scores],
        "rows": [(curve.method, row(curve)) for curve in ladder.curves],
    }


def _structure_view(
    every: Sequence[Relation], main: str, styles: Mapping[str, SeriesStyle], percent: Mapping[str, bool]
) -> View | None:
    """A chart of the main score against each structure score, and the correlations of all pairs of scores."""
    if not any(math.isfinite(relation.everywhere.correlation.pearson) for relation in every):
        return None
    retrieval = list(dict.fromkeys(relation.retrieval for relation in every))
    score = main if main in retrieval else retrieval[0]
    drawn = [relation for relation in every if relation.retrieval == score]
    table: dict[str, list[View]] = {}
    for relation in every:
        table.setdefault(relation.structure, []).append(_correlation_view(relation.everywhere))
    return {
        "score": score,
        "retrieval": retrieval,
        "table": table,
        "charts": [
            {"structure": one.structure, "chart": chart, "correlation": str(one.everywhere.correlation)}
            for one in drawn
            if (chart := relation_chart(one, styles, percent=percent[score]))
        ],
        "has_start": any(point.is_start for relation in every for point in relation.points),
        "start": [(relation.structure, str(relation.at_start.correlation)) for relation in drawn],
    }


def _correlation_view(trend: Trend) -> View:
    pearson, spearman = trend.correlation.pearson, trend.correlation.spearman
    if not math.isfinite(pearson):
        return {"text": MISSING, "title": str(trend.correlation), "side": "", "strength": 0}
    return {
        "text": f"{pearson:+.2f} / {spearman:+.2f}",
        "title": f"{trend.correlation}, scaled slope {trend.scaled_slope:+.2f}",
        **_heat(pearson, 1.0),
    }


def transfer_view(transfer: Transfer, percent: Mapping[str, bool]) -> View:
    """The part on one data set of several parts: a matrix for each trained method, and the untrained rows."""
    first = next(iter(transfer.tables.values()))
    main = first.main_score
    is_percent = percent[main]
    sign = -1 if main in first.lower_is_better else 1
    trained = [method for method, is_trained in transfer.methods.items() if is_trained]
    untrained = [method for method, is_trained in transfer.methods.items() if not is_trained]
    gains = {
        (method, train, test): transfer.mean(method, train, test, main) - transfer.baseline(test, main)
        for method in trained
        for train in transfer.trained_on
        for test in transfer.tested_on
    }
    largest = max((abs(gain) for gain in gains.values() if math.isfinite(gain)), default=0.0)
    crossed = [gain for (_, train, test), gain in gains.items() if train != test and math.isfinite(gain)]

    def cell(method: str, train: str, test: str) -> View:
        entry = transfer.entry(method, train, test)
        mean, deviation = (Summary(()) if entry is None else entry.summary(main)).texts(percent=is_percent)
        gain = gains[method, train, test]
        return {
            "mean": mean,
            "deviation": deviation,
            "gain": f"{100 * gain:+.1f}" if is_percent else f"{gain:+.3g}",
            "has_gain": math.isfinite(gain),
            **_heat(sign * gain, largest),
        }

    def untrained_score(method: str, test: str) -> str:
        # Nothing was trained, so the score is the same whatever the training part.
        means = (transfer.mean(method, train, test, main) for train in transfer.trained_on)
        mean = next((mean for mean in means if math.isfinite(mean)), math.nan)
        return number(mean, percent=is_percent) if math.isfinite(mean) else MISSING

    return {
        "transfer": transfer,
        "score": main,
        "percent": is_percent,
        "crossed": len(crossed),
        "better": sum(sign * gain > 0 for gain in crossed),
        "matrices": [
            {
                "method": method,
                "rows": [
                    (train, [cell(method, train, test) for test in transfer.tested_on]) for train in transfer.trained_on
                ],
            }
            for method in trained
        ],
        "untrained": [(method, [untrained_score(method, test) for test in transfer.tested_on]) for method in untrained],
    }
