"""A picture of a shift check: recall of the ladder's rungs against their shift, and where the deployment data lie."""

from typing import TYPE_CHECKING

from unseen.figures.style import BLUE, GREY, ORANGE, label, panels, render_png
from unseen.shifts.shift_check import ShiftCheck

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def shift_picture(check: ShiftCheck) -> bytes:
    """A PNG of the rungs, the shift of the deployment data, the recall expected there and the one measured."""
    return render_png(lambda: _figure(check))


def _figure(check: ShiftCheck) -> "Figure":
    figure, rows = panels(1, 1, width=7.2, height=4.4)
    place = rows[0][0]
    order = sorted(check.rungs, key=lambda rung: rung.shift)
    shifts, recalls = [rung.shift for rung in order], [100 * rung.recall.value for rung in order]
    place.plot(shifts, recalls, "o-", color=BLUE, label=f"rungs of {label(check.train)}")
    for rung in order:
        place.annotate(
            str(rung.number), (rung.shift, 100 * rung.recall.value), (0, 7), textcoords="offset points", ha="center"
        )
    place.axvline(check.shift, color=ORANGE, linewidth=1.0, linestyle="--", label=label(check.test))
    expected = check.expected
    if expected.value is not None and expected.low is not None and expected.high is not None:
        value, low, high = (100 * each for each in (expected.value, expected.low, expected.high))
        bars = [[value - low], [high - value]]
        place.errorbar(
            [check.shift], [value], bars, fmt="D", color=ORANGE, capsize=4, label="expected at its spread, 95 %"
        )
    if check.measured is not None:
        place.plot([check.shift], [100 * check.measured.value], "*", color=GREY, markersize=13, label="measured")
    place.set_xlabel("shift: corrected distance, less what so many classes have by chance")
    place.set_ylabel(f"recall@1 (%) among {check.gallery}")
    place.grid(True, axis="y")
    place.legend(loc="best")
    place.set_title(f"{label(check.train)} to {label(check.test)}, scored by {label(check.scored_by, 60)}")
    return figure
