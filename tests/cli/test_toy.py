"""`unseen toy` as people type it."""

from tests.helpers.commands import one_sentence, unseen


def test_toy_shows_the_effect_and_says_where_it_wrote(tmp_path):
    out, err = unseen("toy", "--seeds", "1", "--out", "there", cwd=tmp_path)
    assert out == ""
    assert err.count("on 1 of 1 seeds") == 2
    assert "wrote there/toy.png" in err
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["toy.csv", "toy.json", "toy.png"]


def test_toy_without_seeds_is_one_sentence(tmp_path):
    assert "--seeds must be an integer >= 1" in one_sentence("toy", "--seeds", "0", cwd=tmp_path)
