"""Progress outside a terminal is a line with the time left."""

import pytest

from unseen.core import console
from unseen.core.text import duration


@pytest.mark.parametrize("done", [0, 90])
def test_time_left_follows_from_the_steps_of_this_process(done, monkeypatch, capsys):
    now = 100.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    with console.progress_bar("margin", total=100, done=done) as bar:
        now += 20
        bar.set(done + 5, 100, "loss 1")
    line = capsys.readouterr().err
    assert f"{done + 5}/100" in line
    assert "loss 1" in line
    assert f"about {duration(20 / 5 * (100 - done - 5))} left" in line
