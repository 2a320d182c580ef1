"""A bar for long work only, and only on a terminal."""

import sys

import pytest

from unseen.core import console


class Drawn:
    def __init__(self):
        self.calls = []

    def set(self, done, total, words=""):
        self.calls.append((done, total))


@pytest.fixture
def drawn(monkeypatch):
    """Bars that were opened, and a clock that moves a second whenever it is read."""
    seconds, bars = iter(range(1000)), []

    class Opened:
        def __init__(self, description, total):
            bars.append(Drawn())

        def __enter__(self):
            return bars[-1]

        def __exit__(self, *problem):
            bars[-1].calls.append("closed")

    monkeypatch.setattr(console.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(console, "progress_bar", Opened)
    return bars


def test_a_terminal_shows_a_bar_once_the_work_is_long(drawn, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with console.bar_when_long("ranking") as progress:
        progress(1, 10, "")
        progress(2, 10, "")
        assert drawn == []
        progress(5, 10, "")
        progress(10, 10, "")
    assert [bar.calls for bar in drawn] == [[(5, 10), (10, 10), "closed"]]


def test_a_bar_is_closed_when_the_work_is_interrupted(drawn, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(KeyboardInterrupt), console.bar_when_long("ranking") as progress:
        for done in range(1, 5):
            progress(done, 10, "")
        raise KeyboardInterrupt
    assert drawn[0].calls[-1] == "closed"


def test_nothing_is_shown_where_no_terminal_is(drawn, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    with console.bar_when_long("ranking") as progress:
        for done in range(1, 11):
            progress(done, 10, "")
    assert drawn == []
