import ast
import importlib
import subprocess
import sys

import pytest

from unseen.core.errors import ConfigError
from unseen.core.registry import Registry
from unseen.core.registry.entries import REQUIRED
from unseen.core.registry.pml_entries import LIBRARY, UNFIT, pml_entries


def literal(text):
    """The value of a default as it is written; this function itself for the name of a constant."""
    try:
        return ast.literal_eval(text)
    except ValueError:
        return literal


def registry_of(kind, plural):
    return Registry(kind, "unseen.core", plural=plural, foreign="unseen.pairs.pml_adapter")


def test_without_the_library_there_are_no_names_and_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, LIBRARY, None)
    losses = registry_of("loss", "losses")
    assert losses.foreign_names() == []
    assert "pml.TripletMarginLoss" not in losses
    with pytest.raises(
        ConfigError, match="'pml.TripletMarginLoss' is one of pytorch-metric-learning, which is not inst"
    ):
        losses["pml.TripletMarginLoss"]


class TestWithTheLibrary:
    pytestmark = pytest.mark.filterwarnings("ignore")

    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip(LIBRARY)

    def test_an_unknown_name_is_answered_with_the_nearest_and_an_unfit_one_with_the_reason(self):
        losses = registry_of("loss", "losses")
        with pytest.raises(
            ConfigError, match=r"has no loss 'pml.TripletMarginLos'; did you mean 'pml\.TripletMarginLoss'"
        ):
            losses["pml.TripletMarginLos"]
        with pytest.raises(ConfigError, match="cannot be used in a run: .* not checkpointed; use cross_batch_memory"):
            losses["pml.CrossBatchMemory"]
        with pytest.raises(
            ConfigError, match="no miner 'pml.TripletMarginLoss'; did you mean 'pml.TripletMarginMiner'"
        ):
            registry_of("miner", "miners")["pml.TripletMarginLoss"]

    @pytest.mark.parametrize("part", ["losses", "miners"])
    def test_the_settings_that_are_read_are_those_that_the_constructors_take(self, part):
        values = {"num_classes": 3, "embedding_size": 4, "descriptors_dim": 4, "margin": 0.3, "Tn": 1}
        library = importlib.import_module(f"{LIBRARY}.{part}")
        for entry in pml_entries(part).values():
            made_by = getattr(library, entry.attribute)
            needed = {each.name: values[each.name] for each in entry.arguments if each.default == REQUIRED}
            optional = {each.name: literal(each.default) for each in entry.arguments if each.default != REQUIRED}
            made_by(**needed | {name: value for name, value in optional.items() if value is not literal})
            with pytest.raises(TypeError):
                made_by(**needed, no_such_setting=1)

    def test_what_a_class_fixes_for_its_base_is_no_setting_and_what_it_passes_on_is(self):
        miners, losses = pml_entries("miners"), pml_entries("losses")
        settings = {name: [each.name for each in entry.arguments] for name, entry in {**miners, **losses}.items()}
        assert "pos_strategy" in settings["pml.BatchEasyHardMiner"]
        assert "pos_strategy" not in settings["pml.BatchHardMiner"]
        assert {"num_classes", "embedding_size", "softmax_scale"} <= set(settings["pml.ProxyNCALoss"])
        assert {"num_classes", "embedding_size", "sub_centers"} <= set(settings["pml.SubCenterArcFaceLoss"])
        assert not any("mat_based_loss" in names for names in settings.values())

    def test_every_class_is_offered_or_has_a_reason(self):
        for part in ("losses", "miners"):
            library = importlib.import_module(f"{LIBRARY}.{part}")
            classes = {name for name, each in vars(library).items() if isinstance(each, type)}
            left = classes - {entry.attribute for entry in pml_entries(part).values()} - UNFIT.keys()
            assert all(name.startswith("Base") or name.endswith("Mixin") for name in left), left

    def test_listing_needs_neither_torch_nor_the_library(self):
        code = (
            "import sys; from unseen.core.registry import REGISTRIES;"
            "assert 'pml.TripletMarginLoss' in REGISTRIES['loss'].foreign_names();"
            f"assert 'torch' not in sys.modules and '{LIBRARY}' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
