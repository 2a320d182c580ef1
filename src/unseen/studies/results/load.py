"""Load the stored results of a study's or a run's folder."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import unseen
from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.core.registry import score
from unseen.runs.recipe import label_of
from unseen.runs.run_folder import RunFolder
from unseen.studies.results.content import MAY_DIFFER, Content, FailedCell, Row
from unseen.studies.runner import STORE
from unseen.studies.store import Store

_COUNTS = ("queries", "gallery", "classes", "queries_without_positives")


def load_content(folder: Path) -> Content:
    """The results of a study or a run, as far as it is finished.

    Raises: `DataError` for a folder that is neither, or where nothing is finished yet
    """
    if (folder / STORE).is_file():
        content = _of_study(folder)
    elif RunFolder(folder).is_run:
        content = _of_run(folder)
    else:
        raise DataError(
            f"{folder} is no folder of a study or of a run",
            hint="Name a folder that `unseen train` or `unseen study` wrote.",
        )
    if not content.rows and not content.failed:
        raise DataError(
            f"nothing in {folder} is finished yet", hint="Run the command that started it again to continue it."
        )
    return _with_score_facts(content)


def _of_study(folder: Path) -> Content:
    with TemporaryDirectory() as temporary:
        # A copy, so that a slow report does not block the writers of the study.
        copy = Path(temporary) / STORE
        with Store(folder / STORE) as store:
            store.snapshot(copy)
        with Store(copy) as store:
            plan, results, cells = store.plan(), store.results(), store.cells()
    rows = []
    for result in results:
        cell = result.cell
        labels = (cell.data, cell.split, cell.method, cell.seed)
        rows.append(_row(labels, result.content, folder / "cells" / cell.name))
    failed = []
    for state in cells:
        if state.state == "failed":
            cell = state.cell
            sentence = state.error or "no reason was stored"
            failed.append(FailedCell((cell.data, cell.split, cell.method, f"seed {cell.seed}"), sentence))
    return Content(
        title=plan.get("title", folder.name),
        version=unseen.__version__,
        rows=rows,
        failed=failed,
        split_descriptions=plan.get("described", {}),
        # The number of images per class in a batch belongs to a loss: one for proxies, several for pairs.
        may_differ=(*MAY_DIFFER, "per_class"),
        baseline=plan.get("baseline", ""),
    )


def _of_run(folder: Path) -> Content:
    run = RunFolder(folder)
    recipe = run.recipe()
    if not run.is_finished:
        return Content(title=folder.name, version=unseen.__version__, rows=[])
    method = label_of(recipe["loss"], recipe.get("method", {"name": "plain"}))
    data = Path(recipe["data"].get("path", recipe["data"]["name"])).stem
    labels = (data, recipe["split"]["name"], method, recipe["seed"])
    row = _row(labels, run.result(), folder)
    return Content(title=f"{method} on {data}", version=unseen.__version__, rows=[row])


def _with_score_facts(content: Content) -> Content:
    """The content with what the registry knows of its scores: direction, range, and what they measure."""
    known = {}
    for name in dict.fromkeys(name for row in content.rows for name in row.scores):
        base = name if name in score else name.rpartition("@")[0]
        # A score of another version may be unknown here; it is shown without these facts.
        if base in score:
            known[name] = (base, score[base])
    return replace(
        content,
        lower_is_better=[name for name, (_, facts) in known.items() if not facts.higher_is_better],
        not_shares=[name for name, (_, facts) in known.items() if facts.bounds != (0.0, 1.0)],
        structure_scores=[
            name
            for name, (base, facts) in known.items()
            if facts.basis in ("structure", "spectrum") or base == "uniformity"
        ],
        retrieval_scores=[name for name, (_, facts) in known.items() if facts.basis == "ranks"],
    )


def _row(labels: tuple[str, str, str, int], content: Record, folder: Path) -> Row:
    data, split, method, seed = labels
    scores, protocol = content["scores"], content["protocol"]
    return Row(
        data=data,
        split=split,
        method=method,
        seed=seed,
        is_trained=protocol["epochs"] > 0,
        scores=scores["numbers"],
        counts={name.replace("_", " "): scores[name] for name in _COUNTS},
        definitions=scores["definitions"],
        intervals={name: (low, high) for name, (low, high) in scores.get("intervals", {}).items()},
        history=content["history"],
        protocol=protocol,
        seconds=content["seconds"],
        sample=RunFolder(folder).report_sample(),
        # Cells of earlier versions have no draws.
        draws=RunFolder(folder).draws(),
    )
