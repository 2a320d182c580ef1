"""From a study's or a run's folder to the content of its report."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import unseen
from unseen.core.config import Record
from unseen.core.errors import DataError
from unseen.core.registry import score
from unseen.runs.recipe import label_of
from unseen.runs.run_folder import RunFolder
from unseen.studies.results.content import MAY_DIFFER, Content, Failed, Row
from unseen.studies.runner import STORE
from unseen.studies.store import Store


def load_content(folder: Path) -> Content:
    """The content of the report on a study or on a run, whatever of it is finished.

    Raises: `DataError` for a folder that holds neither, or nothing finished yet
    """
    if (folder / STORE).is_file():
        content = _of_study(folder)
    elif RunFolder(folder).is_run:
        content = _of_run(folder)
    else:
        raise DataError(
            f"{folder} is no folder of a study or of a run", hint="Use what `unseen train` or `study` wrote."
        )
    if not content.rows and not content.failed:
        raise DataError(f"nothing in {folder} is finished yet", hint="Use the command that began it, to continue it.")
    return content


def _of_study(folder: Path) -> Content:
    with TemporaryDirectory() as temporary:
        # A copy: a report that takes long to draw must not hold up the writers of the study.
        copy = Path(temporary) / STORE
        with Store(folder / STORE) as store:
            store.snapshot(copy)
        with Store(copy) as store:
            plan, results, cells = store.plan(), store.results(), store.cells()
    rows = [
        _row(
            (result.cell.data, result.cell.split, result.cell.method, result.cell.seed),
            result.content,
            folder / "cells" / result.cell.name,
        )
        for result in results
    ]
    failed = [
        Failed(
            labels=(cell.data, cell.split, cell.method, f"seed {cell.seed}"),
            sentence=state.error or "no reason was kept",
        )
        for state in cells
        if state.state == "failed"
        for cell in [state.cell]
    ]
    return Content(
        title=plan.get("title", folder.name),
        version=unseen.__version__,
        rows=rows,
        failed=failed,
        split_descriptions=plan.get("described", {}),
        # How many images of a class a batch holds belongs to a loss: proxies want one, pairs want several.
        may_differ=(*MAY_DIFFER, "per_class"),
        baseline=plan.get("baseline", ""),
        **_facts(rows),
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
    return Content(title=f"{method} on {data}", version=unseen.__version__, rows=[row], **_facts([row]))


def _facts(rows: list[Row]) -> dict[str, Any]:
    """What is known of the scores: of which less is better, which are no shares, which tell of what."""
    facts: dict[str, Any] = {
        "lower_is_better": [],
        "not_shares": [],
        "structure_scores": [],
        "retrieval_scores": [],
    }
    for name in dict.fromkeys(name for row in rows for name in row.scores):
        known = name if name in score else name.rpartition("@")[0]
        # A score of another version may be unknown here; it is then shown as it is.
        if known not in score:
            continue
        about = {
            "lower_is_better": not score[known].higher_is_better,
            "not_shares": score[known].bounds != (0.0, 1.0),
            "structure_scores": score[known].basis in ("structure", "spectrum") or known == "uniformity",
            "retrieval_scores": score[known].basis == "ranks",
        }
        for fact, is_so in about.items():
            facts[fact] += [name] if is_so else []
    return facts


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
        counts={
            "queries": scores["queries"],
            "gallery": scores["gallery"],
            "classes": scores["classes"],
            "queries without positives": scores["queries_without_positives"],
        },
        definitions=scores["definitions"],
        intervals={name: (low, high) for name, (low, high) in scores.get("intervals", {}).items()},
        history=content["history"],
        protocol=protocol,
        seconds=content["seconds"],
        shown=RunFolder(folder).report_sample(),
        # Cells of earlier versions kept no draws.
        draws=RunFolder(folder).draws(),
    )
