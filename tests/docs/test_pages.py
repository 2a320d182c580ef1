"""The pages of components are what their docstrings make, complete, and their examples run."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
import torch
import typer
from typer.core import TyperGroup

from docs.latex import problems
from docs.pages import FOLDERS, Page, all_pages, bounds_last
from unseen.core.registry import REGISTRIES, Registry
from unseen.runs import prepare

DOCS = Path(__file__).parents[2] / "docs"
COMPONENTS = [(kind, name) for kind in FOLDERS for name in REGISTRIES[kind].names()]
PATHS = ["components.md", *(f"{FOLDERS[kind]}/{name}.md" for kind, name in COMPONENTS)]
LACKING = Registry("loss")


def page_of(kind, name):
    return Page(REGISTRIES[kind], name)


@pytest.fixture(scope="module")
def made():
    return all_pages()


@pytest.mark.parametrize("path", PATHS)
def test_a_committed_page_is_what_the_docstrings_make(made, path):
    assert (DOCS / path).read_text(encoding="utf-8") == made[path], "run make docs"


def test_there_is_no_page_of_a_component_that_is_gone(made):
    found = {f"{folder}/{page.name}" for folder in FOLDERS.values() for page in (DOCS / folder).glob("*")}
    assert found | {"components.md"} == made.keys() == set(PATHS)


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_a_page_has_formula_settings_reference_and_what_differs(kind, name):
    page = page_of(kind, name)
    assert page.docstring.formulas
    assert page.docstring.summary.endswith(".")
    assert {"Empty", "Reference", "Differs"} <= page.docstring.sections.keys()
    assert re.search(r"et al\.|, ", page.docstring.sections["Reference"])
    assert re.search(r"\b(19|20)\d\d\b", page.docstring.sections["Reference"]), "the year of the paper"
    for setting in page.settings:
        _, meaning = page.meaning(setting)
        assert re.search(r"[a-z]{2}", meaning), f"{setting} has no meaning but its bounds"
    text = page.text()
    for heading in ("Formula", "Settings", "Use", "Reference", "Differences from the paper"):
        assert f"\n## {heading}\n" in text


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_formulas_and_symbols_can_be_set(kind, name):
    text = page_of(kind, name).text()
    found = re.findall(r"```math\n(.*?)\n```", text, re.DOTALL) + re.findall(r"\$`(.*?)`\$", text)
    assert found
    for formula in found:
        assert problems(formula) == []


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_the_python_of_a_page_runs(tmp_path, capsys, kind, name):
    (code,) = re.findall(r"```python\n(.*?)```", page_of(kind, name).text(), re.DOTALL)
    (tmp_path / "example.py").write_text(code)
    with torch.random.fork_rng():
        left = runpy.run_path(str(tmp_path / "example.py"))
    assert left["embeddings"].grad.isfinite().all()
    assert left["loss"].usage.counts()["num_tuples"] > 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_the_command_of_a_page_describes_a_run_with_the_component(kind, name):
    from unseen.cli.app import app

    (line,) = re.findall(r"```\n(unseen .*)\n```", page_of(kind, name).text())
    _, verb, *words = shlex.split(line)
    commands = typer.main.get_command(app)
    assert isinstance(commands, TyperGroup)
    options = commands.commands[verb].make_context(verb, words).params
    recipe = prepare({key: options[key] for key in ("data", "loss", "miner") if options[key] is not None}).recipe
    assert recipe.loss is not None
    record = recipe.loss if kind == "loss" else recipe.loss[kind]
    assert record["name"] == name


def test_a_loss_with_a_miner_links_every_miner_and_one_without_links_none():
    text = page_of("loss", "triplet").text()
    assert all(f"(../miners/{name}.md)" in text for name in REGISTRIES["miner"].names())
    assert "Miners:" not in page_of("loss", "proxy_anchor").text()


def test_settings_show_type_choices_default_symbol_and_meaning():
    text = page_of("loss", "triplet").text()
    assert "| `margin` | `float` | `0.2` | $`\\gamma`$ | by which the negative should be farther (> 0) |" in text
    assert '| `reduction` | `"all"` or `"active"` | `"all"` |  | mean over' in text


def test_prose_is_escaped_and_names_become_links():
    page = page_of("loss", "triplet")
    assert page.prose("a * b [x]_+ of P_i") == "a \\* b [x]\\_+ of P_i"
    assert page.prose(r"log(\|P\|)") == "log(|P|)"
    assert page.prose("a | b", is_cell=True) == "a \\| b"
    assert page.prose("``Margin`` and ``Triplet``") == "[`Margin`](../losses/margin.md) and `Triplet`"
    assert page.prose("``miners.Hard``, arXiv:1503.03832") == (
        "[`miners.Hard`](../miners/hard.md), [arXiv:1503.03832](https://arxiv.org/abs/1503.03832)"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(> 0), by which it is farther", "by which it is farther (> 0)"),
        ("(in (0, 2)): nearer ones", "in (0, 2): nearer ones"),
        ("(>= 0)", ">= 0"),
        ("weight (>= 0)", "weight (>= 0)"),
    ],
)
def test_bounds_do_not_come_first(text, expected):
    assert bounds_last(text) == expected


def test_a_setting_that_the_docstring_does_not_explain_is_an_error():
    loss = LACKING

    @loss("lacking")
    class Lacking:
        """A loss that does not say what its setting is."""

        def __init__(self, *, secret: float = 1.0) -> None:
            self.secret = secret

    with pytest.raises(ValueError, match="Lacking does not say what secret is"):
        Page(loss, "lacking").meaning("secret")
