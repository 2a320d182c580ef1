"""A bar for long work only, and only on a terminal."""

import sys

import pytest

from unseen.evaluation.exact import progress


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

    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(progress, "progress_bar", Opened)
    return bars


def test_a_terminal_shows_a_bar_once_the_work_is_long(drawn, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress.bar_when_long("ranking", 10) as advance:
        advance(1)
        advance(1)
        assert drawn == []
        advance(3)
        advance(5)
    assert [bar.calls for bar in drawn] == [[(5, 10), (10, 10), "closed"]]


def test_a_bar_is_closed_when_the_work_is_interrupted(drawn, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(KeyboardInterrupt), progress.bar_when_long("ranking", 10) as advance:
        for _ in range(4):
            advance(1)
        raise KeyboardInterrupt
    assert drawn[0].calls[-1] == "closed"


def test_nothing_is_shown_where_no_terminal_is(drawn, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    with progress.bar_when_long("ranking", 10) as advance:
        for _ in range(10):
            advance(1)
    assert drawn == []
