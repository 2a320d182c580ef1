"""Text as a reader sees it."""

import pytest

from unseen.core.text import clean, cut, duration, flat, full, listed, number, plain, value_text


def test_every_control_character_becomes_visible_and_every_letter_stays():
    # The basic plane, where all of them are but the last two codes of each other plane.
    for code in (
        *range(0x10000),
        *(plane * 0x10000 + low for plane in range(1, 17) for low in (0, 0xFFFD, 0xFFFE, 0xFFFF)),
    ):
        letter = chr(code)
        shown = clean(letter)
        assert len(shown) == 1
        is_control = code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000
        is_never_a_letter = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code < 0xFDF0
        kept = letter in "\n\t" or not (is_control or is_never_a_letter)
        assert (shown == letter) is kept


def test_plain_text_is_one_line_without_changes_of_direction():
    assert plain("a\nb\u202ec\u2028d") == "a␊b\ufffdc␊d"


def test_long_text_is_cut_with_a_sign():
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"
    assert full("x" * 1000) == "x" * 1000
    assert full("x" * 1001).endswith("… (1,001 characters)")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "yes"),
        (0.001, "0.001"),
        ("a", "a"),
        ([1, "b"], "1, b"),
        ([], "none"),
        ([{"a": 1}], '[{"a": 1}]'),
    ],
)
def test_protocol_values_are_words(value, text):
    assert value_text(value) == text


def test_empty_mappings_are_leaves():
    assert flat({"a": {}, "b": {"c": {"d": 1}}}) == {("a",): {}, ("b", "c", "d"): 1}


def test_numbers_lists_and_durations():
    assert number(0.9996, percent=True) == "100.0"
    assert listed(["a"]) == "a"
    assert duration(float("nan")) == "not finite"
