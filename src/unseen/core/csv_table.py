"""CSV tables whose cells no spreadsheet takes for formulas."""

import csv
import io
import re
from collections.abc import Iterable, Sequence

from unseen.core.text import plain

FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def csv_text(text: str) -> str:
    """A string that no spreadsheet takes for a formula; plain numbers stay as they are.

    >>> csv_text("=1+1"), csv_text("-20"), csv_text("margin")
    ("'=1+1", '-20', 'margin')
    """
    text = plain(text)
    is_formula = text.lstrip().startswith(FORMULA_STARTS) and not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", text)
    return "'" + text if is_formula else text


def csv_of(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of strings and numbers, numbers in full; None is an empty cell.

    >>> csv_of(["method", "rho", "seed"], [["=margin", 0.1, None]])
    "method,rho,seed\\n'=margin,0.1,\\n"
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in (heads, *rows):
        cells = ("" if value is None else value for value in row)
        writer.writerow([csv_text(value) if isinstance(value, str) else repr(value) for value in cells])
    return buffer.getvalue()
