"""Docstrings are parsed into their parts."""

import pytest

from docs.docstrings import parse

TEXT = r"""What it is.

    .. math:: a
              + b

    =========  ===========
    s_ij       similarity
               of two
    L(X, M)    ``loss``
    a, b       two numbers
    =========  ===========

    A remark over
    two lines.

    Empty:      nothing
                at all
    Reference:  A paper, 2020
    """


def test_every_part_is_found():
    found = parse(TEXT)
    assert found.summary == "What it is."
    assert found.formulas == ["a + b"]
    assert found.symbols == [(["s_ij"], "similarity of two"), (["L(X, M)"], "``loss``"), (["a", "b"], "two numbers")]
    assert found.remarks == ["A remark over two lines."]
    assert found.sections == {"Empty": "nothing at all", "Reference": "A paper, 2020"}


def test_a_summary_alone_is_a_docstring():
    assert parse("What it is.").sections == {}


def test_a_table_without_an_end_is_an_error():
    with pytest.raises(ValueError, match="does not end"):
        parse("What it is.\n\n====  ====\na     b\n")


def test_a_section_that_occurs_twice_is_an_error():
    with pytest.raises(ValueError, match="Empty occurs twice"):
        parse("What it is.\n\nEmpty:  a\nEmpty:  b\n")
