import subprocess
import sys

import pytest

from unseen.core.errors import ConfigError
from unseen.core.registry import REGISTRIES, Registry


def test_a_name_that_is_taken_is_refused():
    made = Registry("thing", "unseen.core")

    @made("one")
    class One:
        """First."""

    with pytest.raises(ConfigError, match="thing 'one' is registered twice"):

        @made("one")
        class Two:
            """Second."""

    assert made["one"] is One


def test_a_stranger_cannot_take_the_name_of_a_component_that_ships():
    class Margin:
        """Not ours."""

    with pytest.raises(ConfigError, match="registered (already|twice).* by unseen.losses"):
        REGISTRIES["loss"]("margin")(Margin)


def test_an_unknown_name_is_answered_with_the_nearest_and_the_command_that_lists():
    with pytest.raises(
        ConfigError, match=r"unknown loss 'multisimilarity'; did you mean 'multi_similarity'.*list losses"
    ):
        REGISTRIES["loss"]["multisimilarity"]


@pytest.mark.parametrize("kind", sorted(REGISTRIES))
def test_every_component_has_a_summary_and_what_is_read_is_what_is_imported(kind):
    registry = REGISTRIES[kind]
    for name in registry.names():
        entry = registry.entry(name)
        assert entry.summary.endswith((".", ":")), f"{kind} {name}: the first line is no sentence"
        assert registry[name].__name__ == entry.attribute


def test_listing_needs_no_torch():
    code = (
        "import sys; from unseen.core.registry import REGISTRIES;"
        "print([registry.entry(name) for registry in REGISTRIES.values() for name in registry.names()][0].name);"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
