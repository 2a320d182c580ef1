"""Blending with the start: exact at both ends, chosen on validation classes, and refused where nothing can choose."""

from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.helpers.small_runs import image_settings, settings_for, write_features, write_images
from unseen.core.errors import ConfigError
from unseen.evaluation import evaluate
from unseen.models import embed
from unseen.runs import load_run, prepare, run
from unseen.training.blending import SHARES, Blend, blend_weights


@pytest.fixture
def features(tmp_path):
    return write_features(tmp_path / "features.npz")


def test_a_blend_lies_between_its_ends_and_is_exact_at_them():
    start = {"a": torch.randn(100), "count": torch.tensor(1)}
    trained = {"a": torch.randn(100) * 1e-3, "count": torch.tensor(7)}
    assert torch.equal(blend_weights(start, trained, 0.0)["a"], start["a"])
    assert torch.equal(blend_weights(start, trained, 1.0)["a"], trained["a"])
    torch.testing.assert_close(blend_weights(start, trained, 0.3)["a"], 0.7 * start["a"] + 0.3 * trained["a"])
    assert blend_weights(start, trained, 0.3)["count"] == 7


class Scalar(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(torch.tensor([value]))


@pytest.mark.parametrize("peak", [0.0, 0.3, 0.7, 1.0])
def test_auto_finds_the_share_with_the_best_score_and_leaves_the_model_there(peak):
    model = Scalar(0.0)
    blend = Blend(model, "auto")
    with torch.no_grad():
        model.value.fill_(10.0)
    asked = []

    def score_of(model):
        asked.append(model.value.item())
        return -abs(model.value.item() - 10 * peak)

    known = {0.0: -10 * peak, 1.0: -10 * (1 - peak)}
    choice = blend.apply(score_of, known=known)
    assert choice["share"] == peak
    assert model.value.item() == pytest.approx(10 * peak)
    assert asked == pytest.approx([10 * share for share in SHARES[1:-1]])  # both ends were known


def test_of_equal_scores_the_largest_share_is_taken():
    blend = Blend(Scalar(0.0), "auto")
    assert blend.apply(lambda model: 0.5, known={})["share"] == 1.0


@pytest.mark.parametrize(
    "others", [{}, {"average": 0.9}, {"depth": "frozen"}, {"choose_by": "last", "head": "whitening"}]
)
def test_a_stated_share_blends_the_weights_of_the_run_without_it_with_the_start(features, tmp_path, others):
    settings = settings_for(features, **{"head": "random", **others})
    run(settings, tmp_path / "trained")
    run(settings | {"epochs": 0}, tmp_path / "start")
    result = run(settings | {"blend": 0.25}, tmp_path / "blend")
    start, trained, blended = (
        load_file(tmp_path / name / "model.safetensors")["head.weight"] for name in ("start", "trained", "blend")
    )
    assert not torch.equal(start, trained)
    assert torch.equal(blended, torch.lerp(start, trained, 0.25))
    assert result["blend"] == {"share": 0.25, "scores": None}
    assert result["protocol"]["blend"] == 0.25


def test_auto_on_images_records_the_validation_score_of_the_written_model(tmp_path):
    settings = image_settings(write_images(tmp_path / "images"), blend="auto") | {"optimizer": "adam:lr=3e-2"}
    result = run(settings, tmp_path / "run")
    prepared, items, model = load_run(tmp_path / "run")
    validation = prepared.split.validation
    score = evaluate(embed(model, items, validation), prepared.catalogue.labels[validation], scores=["recall@1"])
    share, scores = result["blend"]["share"], result["blend"]["scores"]
    assert score["recall@1"] == scores[str(share)] == max(scores.values())
    assert scores["0.0"] == result["history"][0]["validation"]["recall@1"]
    assert result["chosen_epoch"] >= 1  # the start is one of the shares, not one of the epochs
    assert result["protocol"]["blend"] == "auto"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no validation classes": ({"blend": "auto", "split": "fraction:train=0.6,validation=0"}, "blend auto chooses"),
    "last epoch": ({"blend": "auto", "choose_by": "last"}, "blend auto chooses"),
    "no loss": ({"blend": 0.5, "loss": None}, "blend applies to training"),
    "no loss to average": ({"average": 0.9, "loss": None}, "average applies to training"),
    "too large": ({"blend": 1.1}, "blend must be"),
    "a name": ({"blend": "best"}, "blend must be"),
    "no average": ({"average": 1.0}, "average must be"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused(features, case):
    settings, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message):
        prepare(settings_for(features) | settings)
