import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.core import registry
from unseen.core.config import as_record, build, canonical_json, complete, hash_of, parse_record, parse_value, read_yaml
from unseen.core.errors import ConfigError


class Thing:
    """A thing to configure."""

    def __init__(
        self, *, size: int, rate: float = 0.5, mode: str = "a", at: tuple[float, ...] = (1.0,), miner=None
    ) -> None:
        self.size, self.rate, self.mode, self.at, self.miner = size, rate, mode, at, miner


class Pick:
    """A miner of sorts."""

    def __init__(self, *, share: float = 0.1) -> None:
        self.share = share


@pytest.fixture
def things(monkeypatch):
    made = registry.Registry("thing", "unseen.core")
    made("thing")(Thing)
    miners = registry.Registry("miner", "unseen.core")
    miners("pick")(Pick)
    monkeypatch.setitem(registry.COMPONENT_ARGUMENTS, "miner", miners)
    return made


def test_defaults_are_part_of_the_record_and_of_its_hash(things):
    stated = complete(things, {"name": "thing", "size": 3, "rate": 0.5, "mode": "a", "at": [1.0], "miner": None})
    assert complete(things, "thing:size=3") == stated
    assert hash_of(complete(things, "thing:size=3")) == hash_of(stated)
    assert hash_of(complete(things, "thing:size=4")) != hash_of(stated)


def test_whole_numbers_and_floats_of_one_value_have_one_hash(things):
    assert hash_of(complete(things, "thing:size=3,rate=1")) == hash_of(complete(things, "thing:size=3,rate=1.0"))


@pytest.mark.parametrize("key", ["sise", "rates", "mod", "Size"])
def test_a_key_with_one_letter_changed_is_refused_with_the_nearest(things, key):
    with pytest.raises(ConfigError, match=f"no setting '{key}'.*did you mean"):
        complete(things, {"name": "thing", "size": 3, key: 1})


@pytest.mark.parametrize("value", ["three", 1.5, None, [3], {"a": 1}])
def test_a_value_of_the_wrong_type_is_refused_by_name(things, value):
    with pytest.raises(ConfigError, match="thing 'thing': size has the wrong type"):
        complete(things, {"name": "thing", "size": value})


def test_a_missing_setting_is_named(things):
    with pytest.raises(ConfigError, match=r"needs the setting 'size'\. Write thing:size="):
        complete(things, "thing")


def test_what_the_run_knows_goes_before_the_default_and_stays_out_of_the_record(things):
    assert "rate" not in complete(things, "thing:size=1", {"rate": 0.9})
    assert build(things, "thing:size=1", {"rate": 0.9}).rate == 0.9
    assert build(things, "thing:size=1,rate=0.2", {"rate": 0.9}).rate == 0.2


def test_records_inside_records_are_built_first(things):
    made = build(things, "thing:size=1,miner=(pick:share=0.3)")
    assert isinstance(made.miner, Pick)
    assert made.miner.share == 0.3
    assert isinstance(build(things, "thing:size=1,miner=pick").miner, Pick)


def test_an_unknown_name_is_answered_with_the_nearest(things):
    with pytest.raises(ConfigError, match="unknown thing 'thinh'; did you mean 'thing'"):
        complete(things, "thinh:size=1")


@pytest.mark.parametrize("text", ["margin:beta", "margin:beta=1,beta=2", "margin:beta=1,,x=2"])
def test_text_that_is_no_record_is_refused(text):
    if text == "margin:beta":  # without a key=value behind it a colon belongs to the name
        assert parse_record(text) == {"name": "margin:beta"}
    else:
        with pytest.raises(ConfigError):
            parse_record(text)


def test_a_path_may_hold_colons_commas_and_equal_signs():
    assert parse_record("folder=a:b,c=d/x y") == {"name": "folder", "path": "a:b,c=d/x y"}
    assert parse_record("folder=/data/a:small_classes=drop") == {
        "name": "folder",
        "path": "/data/a",
        "small_classes": "drop",
    }


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()))
def test_values_survive_being_typed(value):
    assert parse_value(str(value)) == value


@pytest.mark.parametrize(
    "text", ["!!python/object/apply:os.system ['true']", "a: !!python/name:os.system", "- 1", "a: [", "1: 2"]
)
def test_a_yaml_file_cannot_name_code_or_be_anything_but_a_mapping(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        read_yaml(path)


def test_what_is_no_record_is_refused():
    with pytest.raises(ConfigError, match="must be a name or a mapping"):
        as_record({"beta": 1}, "loss")
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(float("nan"))


def test_curly_brackets_hold_a_value_for_each_label():
    assert parse_record("joined:parts={a: folder=x/y:small_classes=drop, b: features=z.npz},seed=1") == {
        "name": "joined",
        "parts": {"a": "folder=x/y:small_classes=drop", "b": "features=z.npz"},
        "seed": 1,
    }
    for text in ("{a}", "{: x}", "{a: }"):
        with pytest.raises(ConfigError, match="in curly brackets. Write"):
            parse_value(text)
