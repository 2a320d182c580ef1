"""LaTeX that GitHub shows: symbols from their plain names, and a check that finds what its renderer would refuse."""

import re

GREEK = {"alpha", "beta", "gamma", "delta", "epsilon", "lambda", "nu", "rho", "sigma", "tau", "theta", "psi", "phi"}

ARGUMENTS = {"frac": 2, "tfrac": 2, "sqrt": 1, "mathrm": 1, "text": 1, "bar": 1, "begin": 1, "end": 1}
"""Commands that take arguments, and how many."""

PLAIN = {
    *GREEK,
    *("Delta", "pi", "log", "cos", "sin", "tan", "max", "min", "arg", "sum", "in", "le", "ge", "ne", "to", "sim"),
    *(
        "leftarrow",
        "propto",
        "cdot",
        "pm",
        "cup",
        "nabla",
        "partial",
        "quad",
        "qquad",
        "lVert",
        "rVert",
        "mid",
        "lvert",
        "rvert",
    ),
    *(",", "\\", "|", "{", "}", " "),
}
"""Commands without arguments. `operatorname` is not among them: GitHub refuses it."""

SIZES = {"big", "Big", "bigg", "Bigg"}

_SYMBOL = re.compile(r"([A-Za-z]+)(?:_(\w+?|\[\w+\]))?(?:\^(\w+|[+-])|([+*-]))?")
_FUNCTION = re.compile(r"[A-Z]\([A-Z](, [A-Z])*\)")
_PIECE = re.compile(r"\\(?:[A-Za-z]+|.)|\s+|.", re.DOTALL)
_CLOSES = {")": "(", "]": "["}


def symbol(name: str) -> str | None:
    r"""The LaTeX of a symbol that a docstring writes plainly, or None for what is no symbol.

    >>> [symbol(name) for name in ("s_ik", "gamma_1", "h+", "s_ic^k", "per_anchor")]
    ['s_{ik}', '\\gamma_{1}', 'h^{+}', 's_{ic}^{k}', None]
    """
    if _FUNCTION.fullmatch(name):
        return name
    parts = _SYMBOL.fullmatch(name)
    if parts is None or (len(parts[1]) > 1 and parts[1] not in GREEK):
        return None
    text = f"\\{parts[1]}" if parts[1] in GREEK else parts[1]
    above = parts[3] or parts[4]
    return text + (f"_{{{parts[2]}}}" if parts[2] else "") + (f"^{{{above}}}" if above else "")


def problems(formula: str) -> list[str]:
    """What is wrong with a formula, in words; nothing if it can be set.

    It knows only what our docstrings use: a new command is added to the lists above once somebody has seen GitHub
    show it.
    """
    reader = _Reader(formula)
    reader.read_group(None)
    return reader.found


class _Reader:
    """Reads a formula once, from left to right, and notes what is wrong."""

    def __init__(self, formula: str) -> None:
        self.pieces = [piece for piece in _PIECE.findall(formula) if not piece.isspace()]
        self.place = 0
        self.found: list[str] = []

    def note(self, problem: str) -> None:
        near = "".join(self.pieces[max(0, self.place - 4) : self.place + 1])
        self.found.append(f"{problem} near '{near}'")

    def read_group(self, closing: str | None) -> None:
        """Everything up to the closing piece; None is the end of the formula."""
        open_brackets: list[str] = []
        open_sizes: list[str] = []
        scripts: set[str] = set()
        while self.place < len(self.pieces):
            piece = self.pieces[self.place]
            if piece == closing:
                break
            self.place += 1
            if piece in ("_", "^"):
                if piece in scripts:
                    self.note(f"a second {piece}")
                scripts.add(piece)
                self.read_argument(piece)
                continue
            scripts = set()
            if piece in "([":
                open_brackets.append(piece)
            elif piece in _CLOSES:
                if not open_brackets or open_brackets.pop() != _CLOSES[piece]:
                    self.note(f"a {piece} that nothing opens")
            else:
                self.read_piece(piece, closing, open_sizes)
        if open_brackets or open_sizes:
            self.note(f"{(open_brackets + open_sizes)[-1]} is not closed")
        if closing is None:
            return
        if self.place == len(self.pieces):
            self.note(f"{closing} is missing")
        self.place += 1

    def read_piece(self, piece: str, closing: str | None, open_sizes: list[str]) -> None:
        name = piece[1:] if piece.startswith("\\") and len(piece) > 1 else None
        if piece == "{":
            self.read_group("}")
        elif piece in ("}", "$", "%", "#", "~", "`"):
            self.note(f"a stray {piece}")
        elif piece in ("&", "\\\\"):
            if closing != "\\end":
                self.note(f"{piece} outside an environment")
        elif name is None:
            return
        elif name[:-1] in SIZES and name[-1] in "lr":
            self.read_size(name, open_sizes)
        elif name == "begin":
            self.read_environment()
        elif name in ARGUMENTS and name != "end":
            for _ in range(ARGUMENTS[name]):
                self.read_argument(piece)
        elif name not in PLAIN:
            self.note(f"{piece} is not known")

    def read_argument(self, owner: str) -> None:
        """One piece or one group."""
        if self.place == len(self.pieces) or self.pieces[self.place] in ("}", "_", "^", "&"):
            self.note(f"{owner} lacks what belongs to it")
            return
        piece = self.pieces[self.place]
        self.place += 1
        self.read_piece(piece, None, [])

    def read_size(self, name: str, open_sizes: list[str]) -> None:
        if name[-1] == "l":
            open_sizes.append(name[:-1])
        elif not open_sizes or open_sizes.pop() != name[:-1]:
            self.note(f"\\{name} that no \\{name[:-1]}l opens")
        if self.place == len(self.pieces) or self.pieces[self.place] not in ("(", "[", ")", "]", "|", "\\{", "\\}"):
            self.note(f"\\{name} without a bracket")

    def read_environment(self) -> None:
        opened = self.read_name()
        if opened != "cases":
            self.note(f"the environment {opened} is not known")
        self.read_group("\\end")
        if self.read_name() != opened:
            self.note(f"{opened} ends as something else")

    def read_name(self) -> str:
        start = self.place
        while self.place < len(self.pieces) and self.pieces[self.place] != "}":
            self.place += 1
        self.place += 1
        return "".join(self.pieces[start + 1 : self.place - 1])
