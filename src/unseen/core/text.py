"""Strings and numbers for display: control characters visible, long strings cut, numbers rounded."""

import json
import math
from collections.abc import Iterable, Mapping

_SIGNS = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
_NONCHARACTERS = [plane + last for plane in range(0, 0x110000, 0x10000) for last in (0xFFFE, 0xFFFF)]
_UNFIT = [*range(0x80, 0xA0), *range(0xD800, 0xE000), *range(0xFDD0, 0xFDF0), *_NONCHARACTERS]
_BIDIRECTIONAL = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C]
_VISIBLE = _SIGNS | dict.fromkeys(_UNFIT, "\ufffd")
_ON_ONE_LINE = _VISIBLE | dict.fromkeys(_BIDIRECTIONAL, "\ufffd") | {0x2028: "␊", 0x2029: "␊"}
_ON_LINES = {code: sign for code, sign in _VISIBLE.items() if chr(code) not in "\n\t"}


def clean(text: str) -> str:
    """The string with a visible sign for each control character; lone surrogates, which no file can hold, are replaced.

    >>> clean("a" + chr(0) + "b" + chr(27))
    'a␀b␛'
    """
    return text.translate(_ON_LINES)


def plain(text: str) -> str:
    """The string on one line, for terminals and tables: line breaks and direction marks become visible too."""
    return text.translate(_ON_ONE_LINE)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, with an ellipsis where something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def full(text: str) -> str:
    """The whole string for a tool tip; above 1,000 characters its start and its length."""
    return text if len(text) <= 1000 else f"{text[:1000]}… ({len(text):,} characters)"


def isolated(text: str) -> str:
    """The string between marks that isolate its writing direction from the text around it."""
    return f"\u2068{text}\u2069"


def number(value: float, *, percent: bool) -> str:
    """A score: one decimal of a percentage, else three significant digits.

    >>> number(0.5234, percent=True), number(12.3456, percent=False), number(float("nan"), percent=True)
    ('52.3', '12.3', 'not finite')
    """
    if not math.isfinite(value):
        return "not finite"
    return f"{100 * value:.1f}" if percent else f"{value:.3g}"


def signed(value: float, *, percent: bool) -> str:
    """A difference of scores with its sign: two decimals of a percentage, else three significant digits.

    >>> signed(0.0123, percent=True), signed(-1.5, percent=False), signed(-1e-9, percent=True)
    ('+1.23', '−1.5', '0.00')
    """
    if not math.isfinite(value):
        return "not finite"
    text = f"{100 * value:+.2f}" if percent else f"{value:+.3g}"
    sign = ("−" if text[0] == "-" else "+") if float(text) else ""
    return sign + text[1:]


def duration(seconds: float) -> str:
    """Seconds in hours, minutes and seconds.

    >>> [duration(seconds) for seconds in (4.21, 59, 75, 7300)]
    ['4.2 s', '59 s', '1 min 15 s', '2 h 1 min']
    """
    if not math.isfinite(seconds):
        return "not finite"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def listed(words: Iterable[str]) -> str:
    """Strings as an English list.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *head, last = words
    return f"{', '.join(head)} and {last}" if head else last


def value_text(value: object) -> str:
    """A protocol value as a string; nested values are written as JSON."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, (list, tuple)) and all(isinstance(entry, (str, int, float)) for entry in value):
        return ", ".join(value_text(entry) for entry in value) or "none"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def flat(tree: Mapping[str, object], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], object]:
    """The leaves of a nested mapping by their path.

    >>> flat({"batch": {"size": 128}, "epochs": 3})
    {('batch', 'size'): 128, ('epochs',): 3}
    """
    leaves: dict[tuple[str, ...], object] = {}
    for key, value in tree.items():
        here = (*path, str(key))
        if isinstance(value, Mapping) and value:
            leaves.update(flat(value, here))
        else:
            leaves[here] = value
    return leaves
