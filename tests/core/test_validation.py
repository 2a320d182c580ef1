"""Every failed validation is one sentence: who, what, what was got."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator, model_validator

from unseen.core.errors import ConfigError
from unseen.core.validation import SETTINGS, Count, PositiveInt, PositiveNumber, validate


class Part(BaseModel):
    model_config = SETTINGS

    width: PositiveInt


class Settings(BaseModel):
    model_config = SETTINGS

    name: str = Field(min_length=1, json_schema_extra={"hint": "Give it a name."})
    depth: Literal["full", "top"] = "full"
    clip: PositiveNumber | None = None
    autocast: bool = False
    seeds: Annotated[tuple[Count, ...], Field(strict=False, min_length=1)] = (0,)
    part: Part | None = None
    parts: dict[str, Part] = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if name == "taken":
            raise ConfigError("this name is taken", hint="Choose another one.")
        if name == "odd":
            raise ValueError("this name is odd")
        return name

    @model_validator(mode="after")
    def _check_all(self) -> "Settings":
        if self.autocast and self.clip:
            raise ValueError("autocast and clip exclude each other")
        return self


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "run: the setting 'name' is missing. Give it a name."),
        ({"name": 3}, "run: name must be a string that is not empty; got 3. Give it a name."),
        ({"name": "taken"}, "this name is taken. Choose another one."),
        ({"name": "odd"}, "run: name: this name is odd; got 'odd'"),
        ({"depth": "deep"}, "run: depth must be one of 'full', 'top'; got 'deep'"),
        ({"clip": 0}, "run: clip must be a finite number > 0 or none; got 0"),
        ({"clip": float("inf")}, "run: clip must be a finite number > 0 or none; got inf"),
        ({"clip": True}, "run: clip must be a finite number > 0 or none; got True"),
        ({"autocast": 1}, "run: autocast must be true or false; got 1"),
        ({"seeds": []}, "run: seeds must be a list that is not empty; got []"),
        ({"seeds": [0, "1"]}, "run: seeds: 1 must be an integer >= 0; got '1'"),
        ({"part": 3}, "run: part must be a mapping or none; got 3"),
        ({"part": {"width": 0}}, "run: part: width must be an integer >= 1; got 0"),
        ({"part": {"widht": 1}}, "run: part: unknown setting 'widht'; did you mean 'width'? (known: width)"),
        ({"part": {1: 2}}, "run: part: unknown setting '1' (known: width)"),
        ({"parts": {"a": {}}}, "run: parts: a: the setting 'width' is missing"),
        (
            {"nmae": "x", "clip": 0},
            "run: unknown setting 'nmae'; did you mean 'name'? "
            "(known: name, depth, clip, autocast, seeds, part, parts)",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(content: dict[str, Any], message: str) -> None:
    stated = content if content in ({}, {"name": 3}) else {"name": "x", **content}
    with pytest.raises(ConfigError) as caught:
        validate(Settings, stated, "run")
    assert str(caught.value) == message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or "taken" in message


def test_a_validator_of_the_whole_model_has_its_own_words() -> None:
    with pytest.raises(ConfigError, match="^run: autocast and clip exclude each other; got"):
        validate(Settings, {"name": "x", "autocast": True, "clip": 1}, "run")


def test_values_keep_their_types_so_that_hashes_stay() -> None:
    settings = validate(Settings, {"name": "x", "clip": 10, "seeds": [1, 2]}, "run")
    assert type(settings.clip) is int
    assert settings.seeds == (1, 2)
