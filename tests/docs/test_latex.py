"""Formulas that GitHub would not show are found, and so are those in the pages that people write."""

import doctest
import re
from pathlib import Path

import pytest

from docs import latex, pages
from docs.latex import problems, symbol

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "formula",
    [
        r"\frac1n \sum_i \bigl[l_i\bigr]_+",
        r"\frac{a}{b} + \tfrac1{|A|} + \sqrt{2 \rho}",
        r"\begin{cases} a & b \\ c & \text{else} \end{cases}",
        r"\{n \in N_a : d_{an} < d^\pm_r\}",
        r"\lVert w_c^k - w_c^l \rVert",
    ],
)
def test_what_can_be_set_has_no_problems(formula):
    assert problems(formula) == []


@pytest.mark.parametrize(
    ("formula", "problem"),
    [
        (r"\fraq1n", r"\\fraq is not known"),
        (r"\operatorname{mean}", r"\\operatorname is not known"),
        (r"\frac{a}", r"\\frac lacks"),
        (r"\sqrt", r"\\sqrt lacks"),
        (r"{a + b", "} is missing"),
        (r"a + b}", "a stray }"),
        (r"(a + b", r"\( is not closed"),
        (r"[a + b)", r"a \) that nothing opens"),
        (r"e^{(a}", r"\( is not closed"),
        (r"\bigl[a]", "big is not closed"),
        (r"\bigl[a\Bigr]", r"\\Bigr that no \\Bigl opens"),
        (r"\bigl a", r"\\bigl without a bracket"),
        (r"a_i_j", "a second _"),
        (r"a_", "_ lacks"),
        (r"a & b", "& outside an environment"),
        (r"a \\ b", "outside an environment"),
        (r"\begin{cases} a", "is missing"),
        (r"\begin{cases} a \end{matrix}", "cases ends as something else"),
        (r"\begin{matrix} a \end{matrix}", "the environment matrix is not known"),
        (r"a $ b", r"a stray \$"),
    ],
)
def test_what_cannot_be_set_is_told(formula, problem):
    assert any(re.search(problem, each) for each in problems(formula)), problems(formula)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("d", "d"),
        ("s_ik", "s_{ik}"),
        ("gamma", r"\gamma"),
        ("gamma_1", r"\gamma_{1}"),
        ("h+", "h^{+}"),
        ("P^+", "P^{+}"),
        ("p*", "p^{*}"),
        ("s_ic^k", "s_{ic}^{k}"),
        ("L(X, M)", "L(X, M)"),
        ("per_anchor", None),
        ("``squared``", None),
    ],
)
def test_a_plain_name_becomes_a_symbol_or_is_none(name, expected):
    assert symbol(name) == expected


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_the_formulas_of_a_written_page_can_be_set(page):
    text = page.read_text(encoding="utf-8")
    for formula in re.findall(r"```math\n(.*?)\n```", text, re.DOTALL) + re.findall(r"\$`(.*?)`\$", text):
        assert problems(formula) == []
    # Only these two forms are safe: in others, GitHub reads _ and * as Markdown first.
    assert "$" not in re.sub(r"\$`.*?`\$", "", text), "a formula that stands neither in $`...`$ nor in ```math"


@pytest.mark.parametrize("module", [latex, pages], ids=lambda module: module.__name__)
def test_the_examples_in_the_scripts_hold(module):
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0
