"""Pages of components: Markdown from docstrings and signatures, and the page that lists them."""

import inspect
import json
import re
import sys
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from docs.docstrings import Docstring, parse
from docs.example_calls import command, python, required_of
from docs.latex import problems, symbol
from unseen.core.registry import REGISTRIES, Registry

FOLDERS = {"loss": "losses", "miner": "miners", "uncertainty": "robust"}
"""The folder of docs that holds the pages of a kind."""

TITLES = {"loss": "Losses", "miner": "Miners", "uncertainty": "Uncertainty sets"}

HEADINGS = {
    "Primal": "The set",
    "Gradient": "Weights of the gradient",
    "Shape": "Shape",
    "Empty": "Missing pairs",
    "Raises": "Errors",
    "Reference": "Reference",
    "Differs": "Differences from the paper",
}
"""Sections of a docstring -> headings of the page."""

COMMON = {
    "num_classes": "number of training classes; supplied by a run",
    "embedding_size": "embedding size; supplied by a run",
    "miner": "selects pairs or triplets of the batch; None uses all of them",
}
"""The meaning of settings that many components share; docstrings may leave them out."""

_CODE = re.compile(r"``(.+?)``")
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


class Page:
    """The page of one component."""

    def __init__(self, registry: Registry, name: str) -> None:
        self.registry, self.name = registry, name
        self.entry = registry.entry(name)
        self.component: Any = registry[name]
        self.docstring: Docstring = parse(self.component.__doc__ or "")
        self.settings = [argument.name for argument in self.entry.arguments]
        self.required = required_of(self.component)
        self.package = ".".join(self.entry.module.split(".")[:2])

    def text(self) -> str:
        """The whole page."""
        title, source = TITLES[self.registry.kind], "/".join(self.entry.module.split("."))
        function = vars(sys.modules[self.entry.module]).get(self.name)
        computed = f"computed by the function `{self.name}` of" if inspect.isfunction(function) else "in"
        parts = [
            "<!-- Written by docs/generate.py from the docstring: change that, then run make docs. -->",
            f"# {self.entry.attribute}",
            self.prose(self.docstring.summary),
            f"`{self.package}.{self.entry.attribute}` in Python, `{self.name}` in files and on the command line; "
            f"{computed} [{source}.py](../../src/{source}.py). "
            f"[All {title.lower()}](../components.md#{title.lower().replace(' ', '-')})"
            + (", [the robust frame](../robust.md)" if self.package == "unseen.robust" else ""),
            "## Formula",
            *(f"```math\n{formula}\n```" for formula in self.docstring.formulas),
            self.symbol_table(),
            *(self.prose(remark) for remark in self.docstring.remarks),
            "## Settings",
            self.setting_table(),
            self.miner_line(),
            "## Use",
            f"```python\n{python(self.registry, self.name)}\n```",
            f"```\n{command(self.registry, self.name)}\n```",
            *self.sections(),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def symbol_table(self) -> str:
        """The symbols of the formula."""
        rows = [
            (", ".join(self.named(name) for name in names), self.prose(meaning, is_cell=True))
            for names, meaning in self.docstring.symbols
        ]
        return table(("symbol", "meaning"), rows)

    def setting_table(self) -> str:
        """Name, type, default, symbol and meaning of every setting."""
        if not self.settings:
            return "None."
        rows = []
        for argument in self.entry.arguments:
            letter, meaning = self.meaning(argument.name)
            default = "required" if argument.name in self.required else f"`{argument.default}`".replace("'", '"')
            shown = "" if letter is None else f"$`{letter}`$"
            rows.append((f"`{argument.name}`", self.type_of(argument.name, argument.type), default, shown, meaning))
        return table(("setting", "type", "default", "symbol", "meaning"), rows)

    def meaning(self, setting: str) -> tuple[str | None, str]:
        """The symbol of a setting, if it has one, and its meaning, from the docstring's table."""
        for names, text in self.docstring.symbols:
            if setting in names or f"``{setting}``" in names:
                is_letter = setting in names and "_" not in setting
                return symbol(setting) if is_letter else None, self.prose(bounds_last(text), is_cell=True)
        if setting in COMMON:
            return None, COMMON[setting]
        for names, text in self.docstring.symbols:
            mentions = [match for match in _CODE.finditer(text) if match[1].split("=")[0] in self.settings]
            for number, mention in enumerate(mentions):
                if mention[1].split("=")[0] != setting:
                    continue
                if len(mentions) != len(names):  # the text is about all of its symbols and settings at once
                    own = text.removeprefix(f"``{setting}``, ") if len(mentions) == 1 else text
                    return symbol(names[0]), self.prose(own, is_cell=True)
                end = mentions[number + 1].start() if number + 1 < len(mentions) else len(text)
                own = re.sub(r"(,|,? and|;)$", "", text[mention.start() if number else 0 : end].strip())
                own = re.sub(rf"^``{setting}``[,:;]?\s*", "", own)
                return symbol(names[number]), self.prose(bounds_last(own), is_cell=True)
        raise ValueError(f"the docstring of {self.entry.attribute} does not say what {setting} is")

    def type_of(self, setting: str, written: str) -> str:
        """The type of a setting; choices are spelled out."""
        hint = get_type_hints(self.component.__init__)[setting]
        if get_origin(hint) is Literal:
            return " or ".join(f"`{json.dumps(choice)}`" for choice in get_args(hint))
        return f"`{written}`".replace("|", "\\|")

    def miner_line(self) -> str:
        """The miners that a loss may have, if it takes one."""
        if "miner" not in self.settings:
            return ""
        links = (f"[`{name}`](../miners/{name}.md)" for name in REGISTRIES["miner"].names())
        return f"Miners: {', '.join(links)}."

    def sections(self) -> list[str]:
        """The sections of the docstring."""
        parts = []
        for name, heading in HEADINGS.items():
            if name in self.docstring.sections:
                text = self.prose(self.docstring.sections[name])
                # A sentence begins with a capital, but "n embeddings" is a formula.
                start = text[:1] if text.startswith("n ") else text[:1].upper()
                parts += [f"## {heading}", start + text[1:] + ("" if text.endswith(".") else ".")]
        return parts

    def named(self, name: str) -> str:
        """A name from the table of symbols: code for settings, else the symbol."""
        code = _CODE.fullmatch(name)
        letter = None if code or ("_" in name and name in self.settings) else symbol(name)
        return f"`{code[1] if code else name}`" if letter is None else f"$`{letter}`$"

    def prose(self, text: str, *, is_cell: bool = False) -> str:
        """Text as Markdown: names of components become links to their pages, arXiv numbers links to the papers."""
        parts = []
        for number, part in enumerate(_CODE.split(text)):
            if number % 2:
                parts.append(self.linked(part))
                continue
            plain = part.replace("\\|", "|")
            plain = re.sub(r"([*<])", r"\\\1", plain)
            plain = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", plain)
            plain = plain.replace("|", "\\|") if is_cell else plain
            parts.append(_ARXIV.sub(r"[arXiv:\1](https://arxiv.org/abs/\1)", plain))
        return "".join(parts)

    def linked(self, code: str) -> str:
        """Code, linked if it names another component."""
        folder, _, name = code.rpartition(".")
        kinds = ["miner"] if folder == "miners" else [self.registry.kind, "loss", "uncertainty"]
        for kind in kinds:
            registry = REGISTRIES[kind]
            for known in registry.names():
                if registry.entry(known).attribute == name and (kind, known) != (self.registry.kind, self.name):
                    return f"[`{code}`](../{FOLDERS[kind]}/{known}.md)"
        return f"`{code}`"


def bounds_last(text: str) -> str:
    """The meaning of a setting with its bounds moved to the end.

    >>> bounds_last("(> 0), by which negatives are farther"), bounds_last("(0 to 1): the share")
    ('by which negatives are farther (> 0)', '0 to 1: the share')
    """
    parts = re.fullmatch(r"\(((?:[^()]|\([^()]*\))*)\)([,:;]?) *(.*)", text)
    if parts is None:
        return text
    if parts[2] in (":", ";"):
        return f"{parts[1]}{parts[2]} {parts[3]}"
    return f"{parts[3]} ({parts[1]})" if parts[3] else parts[1]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; empty without rows."""
    if not rows:
        return ""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def index(pages: list[Page]) -> str:
    """The page that lists all components, one sentence each."""
    parts = [
        "<!-- Written by docs/generate.py from the docstrings: change those, then run make docs. -->",
        "# Components",
        "Every loss, miner and uncertainty set, each on a page with its formula, settings, reference and "
        "differences from the paper. On the command line: `unseen list losses`, `unseen list miners`, "
        "`unseen list uncertainties`.",
    ]
    for kind, title in TITLES.items():
        rows = [
            (f"[`{page.name}`]({FOLDERS[kind]}/{page.name}.md)", page.prose(page.docstring.summary, is_cell=True))
            for page in pages
            if page.registry.kind == kind
        ]
        parts += [f"## {title}", table(("name", "what it is"), rows)]
    return "\n\n".join(parts).replace("](../", "](") + "\n"


def all_pages() -> dict[str, str]:
    """The text of every page by its path below docs.

    Raises:     ValueError for a formula that GitHub cannot display, and for a setting without a meaning
    """
    pages = [Page(REGISTRIES[kind], name) for kind in FOLDERS for name in REGISTRIES[kind].names()]
    for page in pages:
        for formula in page.docstring.formulas:
            if problems(formula):
                raise ValueError(f"{page.entry.attribute}: {'; '.join(problems(formula))}")
    written = {f"{FOLDERS[page.registry.kind]}/{page.name}.md": page.text() for page in pages}
    return {"components.md": index(pages), **written}
