"""`unseen shift-check`: how far deployment data lie from training data, and what recall to expect there."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from unseen.cli import options

if TYPE_CHECKING:
    from unseen.shifts.shift_check import AdaptationGain, ShiftCheck


def shift_check(
    train: Annotated[str, typer.Option(help="Training data: folder=DIR, features=FILE.npz, cub200=DIR, ...")],
    test: Annotated[str, typer.Option(help="Deployment data, likewise; or features without labels: FILE.npy")],
    out: Annotated[Path, typer.Option(help="The picture to write; its name ends in .png.")] = Path("shift-check.png"),
    run: Annotated[Path | None, typer.Option(help="Score by this finished run instead of the bare backbone.")] = None,
    model: options.Model = None,
    transform: options.Transform = None,
    labelled: Annotated[
        bool,
        typer.Option(help="Whether deployment labels mean anything; if not, folder=DIR is any images below it."),
    ] = True,
    classes: Annotated[
        int | None, typer.Option(help="Number of deployment classes, where there are no labels to count.")
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option(help="Measure along so many leading directions, for few deployment images.")
    ] = None,
    rungs: Annotated[int, typer.Option(help="Rungs of the ladder of the training data.")] = 7,
    shots: Annotated[int, typer.Option(help="Images of a class that few-shot adaptation is given: 2, 5 or 10.")] = 5,
    episodes: Annotated[int, typer.Option(help="Episodes of few-shot adaptation; 0 for none.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    workers: options.Workers = 0,
    cache: options.Cache = None,
    as_json: options.Json = False,
) -> None:
    """Measure the shift from training to deployment data and what it means for recall."""
    from unseen.analyses.shift_picture import shift_picture
    from unseen.core.checks import check_choice, check_count
    from unseen.core.console import console, progress_bar
    from unseen.core.errors import ConfigError
    from unseen.core.files import write_bytes
    from unseen.runs.shift_check_inputs import ShiftCheckData, compared_features
    from unseen.shifts.episodes import EPISODES, SHOTS
    from unseen.shifts.shift_check import ShiftCheckSettings, check_shift

    if out.suffix.lower() != ".png":
        raise ConfigError("shift-check: --out must end in .png", got=str(out))
    check_choice("shift-check", "--shots", shots, SHOTS)
    check_choice("shift-check", "--episodes", episodes, range(EPISODES + 1))
    check_count("shift-check", "--rungs", rungs, at_least=3)
    check_count("shift-check", "--seed", seed, at_least=0)
    if dimensions is not None:
        check_count("shift-check", "--dimensions", dimensions)
    if classes is not None:
        check_count("shift-check", "--classes", classes, at_least=2)
    if run is not None and (model is not None or transform is not None):
        raise ConfigError(
            "shift-check: a run has its own model and transform", hint="Use --run, or --model and --transform."
        )
    stated = {key: value for key, value in (("model", model), ("transform", transform)) if value is not None}
    settings = ShiftCheckSettings(
        classes=classes, dimensions=dimensions, rungs=rungs, shots=shots, episodes=episodes, seed=seed
    )
    compared = ShiftCheckData(train, test, labelled)
    data = compared_features(compared, settings=stated, run=run, cache=cache, workers=workers)
    with progress_bar("checking", total=1) as bar:
        found = check_shift(data, settings, progress=bar.set)
    # The picture is written last and in one step: an interrupted check leaves nothing.
    write_bytes(out, shift_picture(found))
    if as_json:
        typer.echo(json.dumps(found.to_mapping(), indent=2))
    else:
        _print(found)
    console().print(f"wrote {out}", markup=False, soft_wrap=True)


def _print(found: "ShiftCheck") -> None:
    from unseen.core.console import table

    screen = Console(highlight=False)
    rows = [
        [
            f"rung {rung.number}",
            f"{rung.distance:.2f}",
            f"{rung.shift:.2f}",
            f"{100 * rung.recall.value:.1f}",
            "measured",
        ]
        for rung in found.rungs
    ]
    own = [f"{found.distance.value:.2f}", f"{found.shift:.2f}"]
    expected = found.expected
    if expected.value is not None and expected.low is not None and expected.high is not None:
        span = f"expected: {100 * expected.low:.1f} to {100 * expected.high:.1f}"
        rows.append([escape(found.test), *own, f"{100 * expected.value:.1f}", span])
    else:
        rows.append([escape(found.test), *own, "", "beyond the ladder"])
    if found.measured is not None:
        rows.append([escape(found.test), *own, f"{100 * found.measured.value:.1f}", "measured"])
    title = f"{escape(found.train)} to {escape(found.test)}, {found.distance.dimensions:,} dimensions"
    columns = ["what", "distance", "shift", f"recall@1 % of {found.gallery}", ""]
    screen.print(table(title, columns, rows))
    for sentence in sentences(found):
        screen.print(sentence, markup=False, soft_wrap=True)


def sentences(found: "ShiftCheck") -> list[str]:
    """What the numbers of a check say."""
    numbers = " and ".join(str(number) for number in found.expected.near)
    places = {
        "below": f"{found.test} is no farther away than classes of {found.train} are from each other (rung {numbers}).",
        "between": f"{found.test} lies at the distance of rungs {numbers} of a ladder of {found.train}.",
        "beyond": f"{found.test} lies beyond the hardest rung ({numbers}): no recall is stated, as that would be a "
        "guess.",
    }
    said = [places[found.expected.place]]
    if found.expected.value is not None:
        said.append(
            f"The expected recall is read between rungs, scored by {found.scored_by}; the 95 % interval is for one "
            f"gallery of {found.gallery}."
        )
    said += _crowded(found) + _surprise(found)
    if not found.classes_known:
        said.append(
            f"The number of classes of {found.test} is not known and taken as {found.classes}, with as many images of "
            "each as in training: fewer classes would make the shift smaller, fewer images the recall (--classes)."
        )
    if found.left_out:
        said.append(f"Rungs left out, for too few images or unseen classes: {found.left_out}.")
    return said + [_gain(found, each) for each in found.adapted]


def _crowded(found: "ShiftCheck") -> list[str]:
    """How much room the deployment classes leave each other, and whether training classes tell what that means."""
    known = found.crowded
    if found.expected.value is None:
        return []
    if known is None or known.slope == 0:
        return ["How crowded the classes are is not accounted for."]
    span = f"{known.low:.3f} to {known.high:.3f}"
    said = f"Embeddings of {found.test} spread by {found.spread:.3f}, galleries of {found.train} by {span}"
    if found.spread < known.low:
        return [f"{said}: it is more crowded than any of them, so recall may be lower than expected."]
    if found.spread > known.high:
        return [f"{said}: it has more room than any of them, so recall may be higher than expected."]
    return [f"{said}; {known.slope:.1f} points of recall for each 0.01 are accounted for."]


def _surprise(found: "ShiftCheck") -> list[str]:
    """That the measured recall is not the expected one, where so."""
    low, high, measured = found.expected.low, found.expected.high, found.measured
    if measured is None or low is None or high is None or low <= measured.value <= high:
        return []
    than = "harder" if measured.value < low else "easier"
    return [
        f"The measured recall is outside of the interval: the classes of {found.test} are {than} than those of "
        f"{found.train} at that distance and spread."
    ]


def _gain(found: "ShiftCheck", each: "AdaptationGain") -> str:
    gain = each.result.gains["recall@1"]
    where = found.test if each.rung is None else f"rung {each.rung}"
    before, after = 100 * gain.zero_shot.mean, 100 * gain.few_shot.mean
    said = f"Few-shot adaptation on {where}, {each.result.shots} shots: {before:.1f} to {after:.1f}"
    share = gain.share
    if share is None or share.low is None or share.high is None:
        return f"{said} (too few episodes to say whether it pays)."
    verdict = "it pays" if share.low > 0 else "it harms" if share.high < 0 else "no gain beyond chance"
    return f"{said}, {100 * share.mean:+.1f} % ({100 * share.low:+.1f} to {100 * share.high:+.1f}): {verdict}."
