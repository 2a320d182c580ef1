"""Run time of the uncertainty sets against anchor-based mining and losses: figure 4 of Qi et al. (arXiv:1912.11194).

    python -m bench.robust [--quick] [--threads 1] [--output bench/results]

One iteration is mining, loss and backward, without a network: K = 2 B, gamma = 0.1, five samples per class, d = 1024.
Writes robust.md, robust.csv and robust.png.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import distances
from pytorch_metric_learning import losses as their_losses
from pytorch_metric_learning import miners as their_miners
from pytorch_metric_learning.reducers import MeanReducer
from rich.console import Console

from bench.cases import Case, of_set, their_distance, their_lifted, their_triplet
from bench.measuring import RESULTS, Size, machine, prepare_theirs
from bench.records import OURS, THEIRS, Record, Refusals, markdown_table, measured, write_csv
from unseen import losses, miners, robust
from unseen.core.console import progress_bar, table
from unseen.core.randomness import derive, seed_torch
from unseen.core.text import duration

BATCHES, WIDTH, PER_CLASS = (80, 160, 320, 480, 640), 1024, 5
BUDGET, QUICK_BUDGET = 1.5, 0.05
ROBUST_NAMES = ("DRO-TopK", "DRO-TopK-PN", "DRO-KL")


def their_distance_weighting(size):
    # The hinges of margin_pair: positives below 0.7, negatives above 0.3.
    loss = their_losses.ContrastiveLoss(
        pos_margin=0.7, neg_margin=0.3, distance=distances.CosineSimilarity(), reducer=MeanReducer()
    )
    return loss, their_distance()


CASES = [
    Case("DRO-TopK", "pair", of_set(robust.TopK)),
    Case("DRO-TopK-PN", "pair", of_set(robust.TopKBalanced)),
    Case("DRO-KL", "pair", of_set(lambda k: robust.KL(0.1))),
    Case(
        "SH",
        "mined",
        lambda size: losses.MarginPair(miner=miners.SemiHardPairs(negatives="as_many")),
        lambda size: (their_triplet(), their_miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard")),
        "semi-hard pairs with the pair loss; theirs has semi-hard triplets only, all of them, with the triplet loss",
    ),
    Case(
        "DWS",
        "mined",
        lambda size: losses.MarginPair(miner=miners.DistancePairs()),
        their_distance_weighting,
        "distance-weighted pairs, as many negatives as positives; theirs draws one triplet per anchor",
    ),
    Case(
        "MS",
        "pair",
        lambda size: losses.MultiSimilarity(beta=50, miner=miners.MultiSimilarity()),
        lambda size: (their_losses.MultiSimilarityLoss(beta=50), their_miners.MultiSimilarityMiner(epsilon=0.1)),
    ),
    Case(
        "LS",
        "pair",
        lambda size: losses.LiftedStructure(),
        their_lifted,
        "equation 3 of Qi et al.; theirs is the same function under the name GeneralizedLiftedStructureLoss",
    ),
]


def measure(batches, budget):
    work = [(case, Size(batch, WIDTH, per_class=PER_CLASS)) for batch in batches for case in CASES]
    records: list[Record] = []
    hopeless: Refusals = {}
    with progress_bar("robust", len(work)) as bar:
        for done, (case, size) in enumerate(work):
            bar.set(done, len(work), f"{case.name}, B = {size.batch}")
            records += measured(case, size, budget=budget, hopeless=hopeless)
            bar.advance()
    return records


def subjects(records):
    return list(dict.fromkeys((record.case, record.subject) for record in records))


def rows_of(records, show):
    at = {(record.case, record.subject, record.batch): record for record in records}
    batches = sorted({record.batch for record in records})
    return [
        [f"{case}, {'ours' if subject == OURS else 'theirs'}", *(show(at[case, subject, batch]) for batch in batches)]
        for case, subject in subjects(records)
    ]


def milliseconds(record):
    return f"{record.times.cpu_minimum * 1e3:.2f}" if record.times else record.status


def multiple(record):
    return f"{record.multiple:.2f}" if record.times else record.status


def statements(records):
    """The claims of figure 4 of the paper, checked against our numbers at each batch size."""
    at = {(r.case, r.batch): r.times.cpu_minimum for r in records if r.subject == OURS and r.times}
    batches = sorted({record.batch for record in records})
    others = [case.name for case in CASES if case.name not in ROBUST_NAMES]
    claims = {
        "each DRO variant is faster than SH, DWS, MS and LS": lambda b: (
            max(at[name, b] for name in ROBUST_NAMES) < min(at[name, b] for name in others)
        ),
        "LS is slower than MS": lambda b: at["LS", b] > at["MS", b],
        "SH is slower than DWS": lambda b: at["SH", b] > at["DWS", b],
    }
    rows = []
    for claim, holds in claims.items():
        where = [str(batch) for batch in batches if holds(batch)]
        rows.append([claim, ", ".join(where) or "nowhere"])
    return rows


def report(records, took):
    batches = [f"B = {batch}" for batch in sorted({record.batch for record in records})]
    return (
        "\n".join(
            [
                "# Run time of the uncertainty sets",
                "",
                f"Figure 4 of Qi et al.: time of one iteration at d = {WIDTH}, {PER_CLASS} samples per class. Mining,"
                " loss and backward on clustered embeddings, without the network that the paper's numbers include. The"
                " uncertainty sets weight the losses of `margin_pair` with K = 2 B and gamma = 0.1. Minima of"
                " interleaved rounds of one process, CPU time; the floor is one product of all similarities and its"
                " two backward products.",
                "",
                f"{machine()} The run took {duration(took)}.",
                "",
                "## Milliseconds per iteration",
                "",
                *markdown_table(["method", *batches], rows_of(records, milliseconds)),
                "",
                "## Multiples of the floor",
                "",
                *markdown_table(["method", *batches], rows_of(records, multiple)),
                "",
                "## The paper's claims about its figure, in our implementation",
                "",
                *markdown_table(["claim", "holds at B ="], statements(records)),
                "",
                "## Notes",
                "",
                *(f"- {case.name}: {case.note}." for case in CASES if case.note),
            ]
        )
        + "\n"
    )


def draw(records, path):
    """Plot milliseconds over batch size, a line per method; theirs is dashed, in the colour of ours."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    colours = dict(
        zip(
            [case.name for case in CASES],
            ["#0b3d91", "#2f7fd1", "#5bb5e8", "#b3261e", "#e07b00", "#2e8540", "#7b3fa0"],
            strict=True,
        )
    )
    figure, axis = pyplot.subplots(figsize=(9, 5.6), layout="constrained")
    for case, subject in subjects(records):
        points = [
            (r.batch, r.times.cpu_minimum * 1e3) for r in records if (r.case, r.subject) == (case, subject) and r.times
        ]
        is_ours = subject == OURS
        axis.plot(
            *zip(*points, strict=True),
            color=colours[case],
            linestyle="-" if is_ours else "--",
            marker="o" if is_ours else "D",
            markersize=4,
            label=case if is_ours else f"{case}, {THEIRS}",
        )
    floors: dict[int, float] = {}
    for record in records:
        floors[record.batch] = min(floors.get(record.batch, record.floor.cpu_minimum), record.floor.cpu_minimum)
    axis.plot(list(floors), [value * 1e3 for value in floors.values()], color="black", linewidth=1, label="floor")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, position: f"{value:g}")
    axis.set_xticks(sorted(floors))
    axis.set_xlabel("batch size")
    axis.set_ylabel("milliseconds per iteration (CPU time, log)")
    axis.set_title(f"Mining, loss and backward, d = {WIDTH}", fontsize=11)
    axis.grid(color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    # The legend is in the order of the lines' right ends.
    handles, labels = axis.get_legend_handles_labels()
    order = sorted(range(len(axis.lines)), key=lambda line: -float(np.asarray(axis.lines[line].get_ydata())[-1]))
    figure.legend(
        [handles[line] for line in order],
        [labels[line] for line in order],
        loc="outside right upper",
        fontsize=8,
        frameon=False,
    )
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the two smallest batch sizes, few rounds")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    seed_torch(derive(0, "bench robust"))  # pytorch-metric-learning draws from torch's own generator
    prepare_theirs()
    start = time.perf_counter()
    records = measure(BATCHES[:2] if options.quick else BATCHES, QUICK_BUDGET if options.quick else BUDGET)
    text = report(records, time.perf_counter() - start)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "robust.md").write_text(text)
    write_csv(records, options.output / "robust.csv")
    draw(records, options.output / "robust.png")
    batches = [f"B = {batch}" for batch in sorted({record.batch for record in records})]
    out = Console(width=100)
    out.print(table("milliseconds per iteration", ["method", *batches], rows_of(records, milliseconds)))


if __name__ == "__main__":
    main()
