"""The picture of a shift check: recall on the ladder's rungs against their shift, and where deployment data lie."""

from typing import TYPE_CHECKING

from unseen.figures.style import BLUE, GREY, ORANGE, label, panels
from unseen.shifts.shift_check import ShiftCheck

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def shift_check_figure(check: ShiftCheck) -> "Figure":
    """The rungs, the shift of the deployment data, and the recall expected and measured there."""
    figure, [[axes]] = panels(1, 1, width=7.2, height=4.4)
    rungs = sorted(check.rungs, key=lambda rung: rung.shift)
    shifts, recalls = [rung.shift for rung in rungs], [100 * rung.recall.value for rung in rungs]
    axes.plot(shifts, recalls, "o-", color=BLUE, label=f"rungs of {label(check.train)}")
    for rung, shift, recall in zip(rungs, shifts, recalls, strict=True):
        axes.annotate(str(rung.number), (shift, recall), (0, 7), textcoords="offset points", ha="center")
    axes.axvline(check.shift, color=ORANGE, linewidth=1.0, linestyle="--", label=label(check.test))
    expected = check.expected
    if expected.value is not None and expected.low is not None and expected.high is not None:
        value, low, high = 100 * expected.value, 100 * expected.low, 100 * expected.high
        bars = [[value - low], [high - value]]
        name = "expected at its spread, 95 %"
        axes.errorbar([check.shift], [value], bars, fmt="D", color=ORANGE, capsize=4, label=name)
    if check.measured is not None:
        axes.plot([check.shift], [100 * check.measured.value], "*", color=GREY, markersize=13, label="measured")
    axes.set_xlabel("shift: corrected distance minus what as many classes have by chance")
    axes.set_ylabel(f"recall@1 (%) among {check.gallery}")
    axes.grid(True, axis="y")
    axes.legend(loc="best")
    axes.set_title(f"{label(check.train)} to {label(check.test)}, scored by {label(check.scored_by, 60)}")
    return figure
