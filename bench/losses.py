"""Speed and memory of every loss with its usual miner, ours and pytorch-metric-learning's, as multiples of the floor.

    python -m bench.losses [--quick] [--only NAME] [--threads 1] [--output bench/results]
    python -m bench.losses --against ../other-checkout/src [--write]

Forward plus backward in one process, the subjects in turns with the floor: one product of all similarities and its two
backward. Writes losses.md, losses.csv and losses.png; the full run takes about ten minutes on two quiet cores.
With --against, ours of this checkout and ours of another one in turns, in one table (bench/against.py).
"""

import argparse
import time
from pathlib import Path

import torch
from rich.console import Console

from bench.against import Ratio, compare, table_of
from bench.cases import CASES, PROXY, bare_step, batch_of, floor_step, their_distance
from bench.measuring import (
    MEMORY_CAP,
    RESULTS,
    SLOW_STEP,
    SLOWEST_STEP,
    Size,
    machine,
    prepare_theirs,
    taking_turns,
)
from bench.records import OURS, THEIRS, Record, Refusals, markdown_table, measured, with_peak, write_csv
from unseen.core.console import progress_bar, table
from unseen.core.randomness import derive, seed_torch
from unseen.core.text import duration
from unseen.miners import DistanceWeighted

BATCHES, WIDTHS = (80, 112, 320, 640, 1280), (128, 512, 1024)
MEMORY_BATCHES, TARGET_WIDTH = (640, 1280), 512
FEW_CLASSES, MANY_CLASSES = 100, 11318
COVERAGE_SIZE = Size(640, 1024)
LARGE, SMALL = (640, 1280), (80, 112)
LIMITS = {("pair", LARGE): 1.3, ("mined", LARGE): 2.0, ("pair", SMALL): 3.0, ("mined", SMALL): 3.0}
BUDGET, QUICK_BUDGET = 0.3, 0.05
COMPARED_BATCHES, ALLOWED_CHANGE = (80, 112, 640, 1280), 0.1


def sizes_of(case, *, quick):
    """The sizes of a case, smaller before larger; SOP's many classes at the width of the targets only."""
    batches, widths = ((80, 640), (TARGET_WIDTH,)) if quick else (BATCHES, WIDTHS)
    if case not in PROXY:
        return [Size(batch, width) for width in widths for batch in batches]
    few = [Size(batch, width, FEW_CLASSES) for width in widths for batch in batches]
    return few if quick else few + [Size(batch, TARGET_WIDTH, MANY_CLASSES) for batch in batches]


def measure(cases, *, quick, threads):
    work = [(case, size) for case in cases for size in sizes_of(case, quick=quick)]
    # Size by size, so that a machine that slows down for a minute spoils a size of all cases, not a case.
    work.sort(key=lambda item: (item[1].classes > FEW_CLASSES, item[1].width, item[1].batch))
    records: list[Record] = []
    hopeless: Refusals = {}
    with progress_bar("losses", len(work)) as bar:
        for done, (case, size) in enumerate(work):
            bar.set(done, len(work), f"{case.name}, B = {size.batch}, d = {size.width}")
            found = measured(case, size, budget=QUICK_BUDGET if quick else BUDGET, hopeless=hopeless)
            if size.batch in MEMORY_BATCHES and size.width == TARGET_WIDTH:
                found = [with_peak(record, case, size, threads) for record in found]
            records += found
            bar.advance()
    return records


def coverage(size=COVERAGE_SIZE):
    """Of the anchors of a batch, how many get a triplet from our distance-weighted miner and from theirs."""
    embeddings, labels = batch_of(size)
    ours = DistanceWeighted()(embeddings, labels, key=0).anchor
    theirs = their_distance()(embeddings, labels)[0]
    return len(ours.unique()), len(theirs.unique())


def bare_products(batches):
    """Batch -> the bare products as a share of the floor, which has autograd's work too."""
    shares = {}
    for batch in batches:
        size = Size(batch, TARGET_WIDTH)
        times = taking_turns({"bare": bare_step(size), "floor": floor_step(size)}, budget=QUICK_BUDGET)
        shares[batch] = times["bare"].cpu_minimum / times["floor"].cpu_minimum
    return shares


def label_of(record):
    return f"{record.case}, C = {record.classes:,}" if record.classes else record.case


def limit_of(record):
    """The largest multiple of the floor that the target allows a record of ours; None where there is no target."""
    if record.width != TARGET_WIDTH or record.subject != OURS:
        return None
    return next((limit for (kind, of), limit in LIMITS.items() if kind == record.kind and record.batch in of), None)


def misses(record):
    """Whether a record of ours is beyond its target, judged by the number as it is printed."""
    limit = limit_of(record)
    return limit is not None and not (record.times and round(record.multiple, 2) <= limit)


def verdicts(records):
    """(target, how many met it, which missed it) of each target that was measured."""
    found = []
    for (kind, batches), limit in LIMITS.items():
        held = [r for r in records if r.kind == kind and r.batch in batches and limit_of(r) is not None]
        if held:
            missed = [r for r in held if misses(r)]
            words = [
                f"{r.case} {r.multiple:.2f} (B = {r.batch})" if r.times else f"{r.case} {r.status}" for r in missed
            ]
            target = f"{kind} losses, B = {' and '.join(map(str, batches))}: at most {limit:g} times the floor"
            found.append((target, len(held) - len(missed), words))
    theirs = {(r.case, r.batch, r.width, r.classes): r for r in records if r.kind == "proxy" and r.subject == THEIRS}
    proxies = [r for r in records if r.kind == "proxy" and r.subject == OURS and r.times]
    missed = []
    for record in proxies:
        other = theirs[record.case, record.batch, record.width, record.classes]
        if other.times and record.times.cpu_minimum > other.times.cpu_minimum:
            ratio = record.times.cpu_minimum / other.times.cpu_minimum
            missed.append(f"{label_of(record)} {ratio:.2f} times theirs (B = {record.batch}, d = {record.width})")
    if proxies:
        target = "proxy losses: at least as fast as pytorch-metric-learning's, all sizes"
        found.append((target, len(proxies) - len(missed), missed))
    return found


def cell(record):
    if record is None:
        return ""
    text = f"{record.multiple:.2f} ({record.median_multiple:.2f})" if record.times else record.status
    return f"**{text}**" if misses(record) else text


def grid(records, width, show, batches):
    """Rows of a table: the case, then ours and theirs at each batch size."""
    at = {(label_of(r), r.batch, r.subject): r for r in records if r.width == width}
    labels = list(dict.fromkeys(label_of(r) for r in records if r.width == width))
    order = {case.name: place for place, case in enumerate(CASES)}
    labels.sort(key=lambda label: (order[label.split(", C =")[0]], label))
    return [
        [label, *(show(at.get((label, batch, subject))) for batch in batches for subject in (OURS, THEIRS))]
        for label in labels
    ]


def heads(batches):
    return ["loss", *(f"B = {batch}, {who}" for batch in batches for who in ("ours", "theirs"))]


def memory_cell(record):
    if record is None:
        return ""
    if record.peak_bytes is None:
        return record.peak_status
    return f"{record.peak_bytes / 2**20:.0f} MB ({record.peak_bytes / (4 * record.batch**2):.0f})"


def report(records, covered, shares, took):
    """The result as Markdown."""
    batches = sorted({record.batch for record in records})
    lines = [
        "# Losses",
        "",
        "Forward plus backward of every loss with its usual miner, mining included, on clustered embeddings, four"
        " samples a class. Numbers are multiples of the floor in CPU time: minimum over minimum of interleaved rounds"
        " of one process, in brackets median over median; bold misses its target. The floor is one product of all"
        " similarities and its two backward products, through autograd; for proxy losses the product with the proxies."
        " Robust sets weigh the losses of `margin_pair`, K = 2 B. Theirs is pytorch-metric-learning with the same"
        " settings, and the same value where no note below says otherwise; its distance-weighted miner is"
        " held to one triplet an anchor.",
        "",
        f"{machine()} The run took {duration(took)}.",
        "",
        "## Targets",
        "",
        f"At d = {TARGET_WIDTH}, by the minima.",
        "",
        *markdown_table(
            ["target", "met", "missed", "which"],
            [[target, str(met), str(len(missed)), "; ".join(missed)] for target, met, missed in verdicts(records)],
        ),
        "",
        "## Anchors covered by distance-weighted mining",
        "",
        f"B = {COVERAGE_SIZE.batch}, d = {COVERAGE_SIZE.width}: ours {covered[0]} of {COVERAGE_SIZE.batch}, theirs"
        f" {covered[1]}; every anchor has a positive and a negative.",
    ]
    for width in sorted({record.width for record in records}, key=lambda width: (width != TARGET_WIDTH, width)):
        rows = grid(records, width, cell, batches)
        lines += ["", f"## Times the floor, d = {width}", "", *markdown_table(heads(batches), rows)]
    lines += ["", "The floor itself, in milliseconds of CPU time (minimum):", ""]
    floors: dict[tuple[int, int, int], float] = {}
    for record in records:
        key = (record.width, record.classes, record.batch)
        floors[key] = min(floors.get(key, record.floor.cpu_minimum), record.floor.cpu_minimum)
    kinds = sorted({key[:2] for key in floors}, key=lambda kind: (kind[1], kind[0]))
    floor_rows = [
        [
            f"d = {width}" + (f", C = {classes:,}" if classes else ""),
            *(f"{floors[width, classes, b] * 1e3:.3f}" if (width, classes, b) in floors else "" for b in batches),
        ]
        for width, classes in kinds
    ]
    lines += markdown_table(["product", *(f"B = {batch}" for batch in batches)], floor_rows)
    spread = ", ".join(f"{share:.2f} (B = {batch})" for batch, share in shares.items())
    lines += ["", f"The bare products without autograd, as a share of the floor at d = {TARGET_WIDTH}: {spread}."]
    kept = [record for record in records if record.peak_bytes is not None or record.peak_status]
    if kept:
        held = sorted({record.batch for record in kept})
        lines += ["", f"## Peak memory of the first step, d = {TARGET_WIDTH}", ""]
        lines += ["Added to what a fresh process holds; in brackets how many B x B matrices of float32 that is.", ""]
        lines += markdown_table(heads(held), grid(kept, TARGET_WIDTH, memory_cell, held))
    noted = [case for case in CASES if case.note and any(record.case == case.name for record in records)]
    lines += ["", "## Notes", ""]
    lines += [
        f"- Theirs gets at most {MEMORY_CAP / 2**30:.0f} GB of new memory and {SLOWEST_STEP:.0f} s a step; what is"
        " refused at one size is not tried at larger ones."
        f" A step of more than {SLOW_STEP} s is taken once, warmed up at a small batch only.",
        f"- C = {MANY_CLASSES:,} is measured at d = {TARGET_WIDTH} only.",
        *(f"- {case.name}: {case.note}." for case in noted),
    ]
    return "\n".join(lines) + "\n"


def draw(records, path):
    """Multiples of the floor by loss, ours and theirs, one panel a batch size, at the width of the targets."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    chosen = [record for record in records if record.width == TARGET_WIDTH]
    batches = [batch for batch in (80, 112, 640, 1280) if any(record.batch == batch for record in chosen)]
    batches = [batch for batch in batches if batch != 80 or 112 not in batches]
    labels = [row[0] for row in grid(chosen, TARGET_WIDTH, lambda record: "", batches)]
    place = {label: len(labels) - position for position, label in enumerate(labels)}
    finite = [record.multiple for record in chosen if record.times]
    low, high = min(0.7, *finite), max(10.0, *finite) * 1.6
    figure, axes = pyplot.subplots(
        1,
        len(batches),
        figsize=(3 + 4 * len(batches), 1.8 + 0.24 * len(labels)),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    green = "#2e8540"
    looks = {OURS: ("#1a5fb4", "o", "unseen"), THEIRS: ("#d9730d", "D", "pytorch-metric-learning")}
    for axis, batch in zip(axes[0], batches, strict=True):
        axis.axvline(1, color="black", linewidth=1)
        for record in (record for record in chosen if record.batch == batch):
            colour, shape, _ = looks[record.subject]
            limit, row = limit_of(record), place[label_of(record)]
            if limit is not None:  # the targets differ from row to row
                axis.plot([limit, limit], [row - 0.5, row + 0.5], color=green, linewidth=1.6, zorder=2)
            if record.times:
                axis.plot(record.multiple, row, shape, color=colour, markersize=5, zorder=3)
            else:
                words = record.status.removeprefix("skipped: ")
                axis.text(high * 0.9, row, words, color=colour, fontsize=7, ha="right", va="center")
        axis.set_xscale("log")
        axis.set_xlim(low * 0.85, high)
        axis.xaxis.set_major_formatter(lambda value, position: f"{value:g}")
        axis.grid(axis="both", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.set_title(f"B = {batch}, d = {TARGET_WIDTH}", fontsize=10)
        axis.set_xlabel("times the floor (CPU time, log)", fontsize=9)
        axis.set_yticks(list(place.values()), list(place), fontsize=8)
        axis.set_ylim(0.3, len(labels) + 0.7)
    handles = [
        pyplot.Line2D([], [], color=colour, marker=shape, linestyle="", label=words)
        for colour, shape, words in looks.values()
    ]
    handles.append(pyplot.Line2D([], [], color="black", linewidth=1, label="floor"))
    handles.append(
        pyplot.Line2D([], [], color=green, linewidth=1.6, label="target: 1.3 (pairs) and 2 (mined), small batches 3")
    )
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def compare_with(source, cases, *, quick, threads):
    """The ratios of all cases, of another checkout's source and of ours, at the width of the targets."""
    batches = (112, 640) if quick else COMPARED_BATCHES
    sizes = {case.name: FEW_CLASSES if case in PROXY else 0 for case in cases}
    work = [(name, Size(batch, TARGET_WIDTH, classes)) for batch in batches for name, classes in sizes.items()]
    with progress_bar("losses, before and after", len(work)) as bar:
        return compare(source, work, threads=threads, rounds=2 if quick else 6, progress=bar.set)


def comparison_report(ratios: list[Ratio], took: float) -> str:
    """Before and after as Markdown."""
    columns, rows = table_of(ratios)
    slower = [r for r in ratios if r.size.batch in LARGE and r.change > ALLOWED_CHANGE]
    words = [f"{r.case} {r.change:+.0%} (B = {r.size.batch})" for r in slower]
    lines = [
        "# Losses before and after",
        "",
        "Forward plus backward of every loss, mining included, as multiples of the floor in CPU time: before -> after"
        " (change). Both checkouts run in processes of their own, in turns; smallest of all rounds."
        f" d = {TARGET_WIDTH}, four samples per class; proxy losses with {FEW_CLASSES} classes.",
        "",
        f"{machine()} The run took {duration(took)}.",
        "",
        f"More than {ALLOWED_CHANGE:.0%} slower at B = {' or '.join(map(str, LARGE))}: {'; '.join(words) or 'none'}.",
        "",
        *markdown_table(columns, rows),
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two batch sizes at d = 512, few rounds")
    parser.add_argument("--only", help="the cases whose name contains this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--against", type=Path, help="compare with the source in this folder, which holds `unseen`")
    parser.add_argument("--write", action="store_true", help="with --against, write losses-before-after.md")
    options = parser.parse_args()
    cases = [case for case in CASES if (options.only or "") in case.name]
    if not cases:
        parser.error(f"no case has {options.only!r} in its name; there are: {', '.join(case.name for case in CASES)}")
    if options.against and not (options.against / "unseen" / "__init__.py").is_file():
        parser.error(f"{options.against} holds no package `unseen`")
    torch.set_num_threads(options.threads)
    if options.against:
        start = time.perf_counter()
        ratios = compare_with(options.against, cases, quick=options.quick, threads=options.threads)
        columns, rows = table_of(ratios)
        Console(width=160).print(table(f"times the floor, before -> after, d = {TARGET_WIDTH}", columns, rows))
        if options.write:
            options.output.mkdir(parents=True, exist_ok=True)
            text = comparison_report(ratios, time.perf_counter() - start)
            (options.output / "losses-before-after.md").write_text(text)
        return
    seed_torch(derive(0, "bench losses"))  # pytorch-metric-learning draws from torch's own generator
    prepare_theirs()
    start = time.perf_counter()
    records = measure(cases, quick=options.quick, threads=options.threads)
    shares = bare_products(sorted({record.batch for record in records}))
    text = report(records, coverage(), shares, time.perf_counter() - start)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "losses.md").write_text(text)
    write_csv(records, options.output / "losses.csv")
    draw(records, options.output / "losses.png")
    batches = sorted({record.batch for record in records})
    rows = grid(records, TARGET_WIDTH, lambda record: cell(record).replace("**", ""), batches)
    out = Console(width=max(100, 24 + 34 * len(batches)))
    out.print(table(f"times the floor, minimum (median), d = {TARGET_WIDTH}", heads(batches), rows))
    for target, met, missed in verdicts(records):
        out.print(f"{target}: {met} met, {len(missed)} missed {'; '.join(missed)}", markup=False)


if __name__ == "__main__":
    main()
