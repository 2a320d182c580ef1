"""Content that several tests of results look at; built once, as it is only read."""

import pytest

from tests.helpers.synthetic_content import make_content
from unseen.studies.results.content import Content


@pytest.fixture(scope="session")
def demo_content() -> Content:
    return make_content(fonts=3, queries=4)
