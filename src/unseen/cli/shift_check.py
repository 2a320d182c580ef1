"""`unseen shift-check`: the distance of deployment data from training data, and the recall to expect there."""

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
    out: Annotated[Path, typer.Option(help="The PNG file to write.")] = Path("shift-check.png"),
    run: Annotated[
        Path | None, typer.Option(help="Use the embeddings of this finished run instead of the pretrained backbone.")
    ] = None,
    model: options.Model = None,
    transform: options.Transform = None,
    labelled: Annotated[
        bool,
        typer.Option(help="Whether deployment data have labels; if not, folder=DIR is all images below it."),
    ] = True,
    classes: Annotated[int | None, typer.Option(help="Number of deployment classes, if there are no labels.")] = None,
    dimensions: Annotated[
        int | None, typer.Option(help="Number of leading principal directions to measure along, for few images.")
    ] = None,
    rungs: Annotated[int, typer.Option(help="Rungs of the ladder of the training data.")] = 7,
    shots: Annotated[int, typer.Option(help="Images per class for few-shot adaptation: 2, 5 or 10.")] = 5,
    episodes: Annotated[int, typer.Option(help="Episodes of few-shot adaptation; 0 for none.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    engine: options.Engine = "auto",
    workers: options.Workers = 0,
    cache: options.Cache = None,
    as_json: options.Json = False,
) -> None:
    """Measure the shift from training to deployment data and forecast recall."""
    from unseen.analyses.shift.shift_check_figure import shift_check_figure
    from unseen.core.checks import check_choice, check_count
    from unseen.core.console import console, progress_bar
    from unseen.core.errors import ConfigError
    from unseen.core.files import write_bytes
    from unseen.figures.style import render_png
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
            "shift-check: a run has its own model and transform", hint="State either --run, or --model and --transform."
        )
    stated = {key: value for key, value in (("model", model), ("transform", transform)) if value is not None}
    settings = ShiftCheckSettings(
        classes=classes, dimensions=dimensions, rungs=rungs, shots=shots, episodes=episodes, seed=seed
    )
    compared = ShiftCheckData(train, test, labelled)
    data = compared_features(compared, settings=stated, run=run, engine=engine, cache=cache, workers=workers)
    with progress_bar("checking", total=1) as bar:
        result = check_shift(data, settings, progress=bar.set)
    # The picture is written last and in one step: an interrupted check leaves no file.
    write_bytes(out, render_png(lambda: shift_check_figure(result)))
    if as_json:
        typer.echo(json.dumps(result.to_mapping(), indent=2))
    else:
        _print(result)
    console().print(f"wrote {out}", markup=False, soft_wrap=True)


def _print(check: "ShiftCheck") -> None:
    from unseen.core.console import table

    screen = Console(highlight=False)
    rows = []
    for rung in check.rungs:
        recall = f"{100 * rung.recall.value:.1f}"
        rows.append([f"rung {rung.number}", f"{rung.distance:.2f}", f"{rung.shift:.2f}", recall, "measured"])
    own = [f"{check.distance.value:.2f}", f"{check.shift:.2f}"]
    expected = check.expected
    if expected.value is not None and expected.low is not None and expected.high is not None:
        span = f"expected: {100 * expected.low:.1f} to {100 * expected.high:.1f}"
        rows.append([escape(check.test), *own, f"{100 * expected.value:.1f}", span])
    else:
        rows.append([escape(check.test), *own, "", "beyond the ladder"])
    if check.measured is not None:
        rows.append([escape(check.test), *own, f"{100 * check.measured.value:.1f}", "measured"])
    title = f"{escape(check.train)} to {escape(check.test)}, {check.distance.dimensions:,} dimensions"
    columns = ["data", "distance", "shift", f"recall@1 % of {check.gallery}", ""]
    screen.print(table(title, columns, rows))
    for sentence in sentences(check):
        screen.print(sentence, markup=False, soft_wrap=True)


def sentences(check: "ShiftCheck") -> list[str]:
    """The result of a check in words."""
    numbers = " and ".join(str(number) for number in check.expected.near)
    positions = {
        "below": f"{check.test} is no farther away than classes of {check.train} are from each other (rung {numbers}).",
        "between": f"{check.test} lies at the distance of rungs {numbers} of a ladder of {check.train}.",
        "beyond": f"{check.test} lies beyond the hardest rung ({numbers}): recall is not extrapolated to there.",
    }
    lines = [positions[check.expected.place]]
    if check.expected.value is not None:
        lines.append(
            f"The expected recall is interpolated between rungs, with embeddings by {check.scored_by}; the 95 % "
            f"interval is for one gallery of {check.gallery}."
        )
    lines += _crowding(check) + _surprise(check)
    if not check.classes_known:
        lines.append(
            f"The number of classes of {check.test} is unknown and assumed to be {check.classes}, with as many images "
            "per class as in training: fewer classes would lower the shift, fewer images the recall (--classes)."
        )
    if check.left_out:
        lines.append(f"Rungs left out because of too few images or unseen classes: {check.left_out}.")
    return lines + [_adaptation(check, gain) for gain in check.adapted]


def _crowding(check: "ShiftCheck") -> list[str]:
    """How crowded the deployment classes are compared with galleries of training classes, which changes recall."""
    crowding = check.crowded
    if check.expected.value is None:
        return []
    if crowding is None or crowding.slope == 0:
        return ["How crowded the classes are is not accounted for."]
    span = f"{crowding.low:.3f} to {crowding.high:.3f}"
    spread = f"Embeddings of {check.test} spread by {check.spread:.3f}, galleries of {check.train} by {span}"
    if check.spread < crowding.low:
        return [f"{spread}: it is more crowded than any of them, so recall may be lower than expected."]
    if check.spread > crowding.high:
        return [f"{spread}: it is less crowded than any of them, so recall may be higher than expected."]
    return [f"{spread}; {crowding.slope:.1f} points of recall per 0.01 are accounted for."]


def _surprise(check: "ShiftCheck") -> list[str]:
    """A sentence if the measured recall is outside of the expected interval."""
    low, high, measured = check.expected.low, check.expected.high, check.measured
    if measured is None or low is None or high is None or low <= measured.value <= high:
        return []
    comparison = "harder" if measured.value < low else "easier"
    return [
        f"The measured recall is outside of the interval: the classes of {check.test} are {comparison} than those of "
        f"{check.train} at that distance and spread."
    ]


def _adaptation(check: "ShiftCheck", adaptation: "AdaptationGain") -> str:
    gain = adaptation.result.gains["recall@1"]
    where = check.test if adaptation.rung is None else f"rung {adaptation.rung}"
    before, after = 100 * gain.zero_shot.mean, 100 * gain.few_shot.mean
    change = f"Few-shot adaptation on {where}, {adaptation.result.shots} shots: {before:.1f} to {after:.1f}"
    share = gain.share
    if share is None or share.low is None or share.high is None:
        return f"{change} (too few episodes to tell whether it helps)."
    verdict = "it helps" if share.low > 0 else "it harms" if share.high < 0 else "no gain beyond chance"
    return f"{change}, {100 * share.mean:+.1f} % ({100 * share.low:+.1f} to {100 * share.high:+.1f}): {verdict}."
