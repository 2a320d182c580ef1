"""Every code block that people wrote runs, every command in them exists, and all links of all pages lead somewhere.

The blocks of the pages that docs/generate.py writes run in test_pages.py.
"""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from tests.helpers.fresh_process import run_code

ROOT = Path(__file__).parents[2]
WRITTEN = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
PAGES = sorted({*WRITTEN, *(ROOT / "docs").rglob("*.md")})
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
"""Their Python is a file of the package: test_how_to.py puts it in place."""


def blocks(language, pages):
    found = [(page, code) for page in pages for kind, code in BLOCK.findall(page.read_text()) if kind == language]
    return [pytest.param(code, id=f"{page.stem}-{number}") for number, (page, code) in enumerate(found)]


@pytest.mark.parametrize("code", blocks("python", WRITTEN))
def test_a_block_of_python_runs(tmp_path, code):
    done = run_code(code, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("code", blocks("", [*WRITTEN, *HOW_TO]))
def test_a_command_in_a_block_is_one_that_exists(code):
    from unseen.cli.app import app

    verbs = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = typer.main.get_command(app)
    assert isinstance(commands, TyperGroup)
    for line in code.strip().splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "make":
            assert words[1] in verbs, line
        else:
            assert words[0] == "unseen", line
            command = commands.commands[words[1]]
            command.make_context(words[1], words[2:], resilient_parsing=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page):
    for target, heading in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", page.read_text()):
        if target.startswith("http"):
            continue
        path = page.parent / target if target else page
        assert path.exists(), target
        if heading:
            known = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in known], heading
