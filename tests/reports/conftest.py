"""Content that several report tests look at; built once, as it is only read."""

import pytest

from tests.helpers.synthetic_content import make_content
from unseen.reports import build_report


@pytest.fixture(scope="session")
def demo_content():
    return make_content(fonts=3, queries=4)


@pytest.fixture(scope="session")
def demo_report(demo_content):
    return build_report(demo_content)
