"""What every method must keep: finite on degenerate batches, a function of key and state, whole in a checkpoint."""

import json

import pytest
import torch
from safetensors.torch import save

from tests.contracts.degenerate_batches import DEGENERATE
from tests.crash.harness import same_bits
from tests.helpers.objectives import (
    EMBEDDING,
    batch,
    copy_state,
    objective_of,
    optimizer_over,
    record,
    train_steps,
    value_of,
)
from tests.helpers.small_runs import (
    Stop,
    image_settings,
    settings_for,
    stop_at,
    without_times,
    write_features,
    write_images,
)
from unseen.core.config import build, complete, record_of
from unseen.core.errors import ConfigError
from unseen.core.registry import REGISTRIES
from unseen.evaluation import evaluate
from unseen.losses import Triplet
from unseen.models import embed
from unseen.runs import evaluation_arguments, load_run, run
from unseen.training.loop import deterministic
from unseen.training.optimizers import parameter_groups

NAMES = REGISTRIES["method"].names()
MARGIN = "margin:beta_mode=per_class,miner=(distance)"
NEEDS_A_BACKBONE = {"uniform_prior"}
EMBEDS_NO_SINGLE_ITEMS = {"mixup"}
NEEDS_TUPLES = {"diva"}
NEEDS_CLASS_INDICES = {"classifier"}


def every(*others):
    return pytest.mark.parametrize("name", [name for name in NAMES if name not in others])


@every()
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_batches_give_finite_values_and_gradients(name, case):
    inputs, labels = DEGENERATE[case]
    if name in NEEDS_CLASS_INDICES:
        labels = labels.unique(return_inverse=True)[1]
    objective = objective_of(name, inputs=inputs.shape[1])
    objective.queue.put(torch.eye(4)) if name == "diva" else None
    with deterministic():
        value, output = value_of(objective, inputs.float(), labels)
        value.backward()
        objective.after_step(output, key=3)
    assert value.isfinite()
    for parameter in objective.parameters():
        assert parameter.isfinite().all()
        assert parameter.grad is None or parameter.grad.isfinite().all()


@every()
def test_a_value_is_a_function_of_inputs_state_and_key(name):
    inputs, labels = batch()
    values = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        objective = objective_of(name)
        values.append(value_of(objective, inputs, labels, key=5)[0].item())
    assert values[0] == values[1]
    assert objective_of(name, seed=1).state_dict().keys() == objective.state_dict().keys()
    assert value_of(objective_of(name, seed=1), inputs, labels, key=5)[0].item() != values[0]


def all_triplets(objective, name):
    """The mean hinge of all triplets of a batch in the evaluated embedding, for DiVA in the head that is for it."""
    inputs, labels = batch()
    width = EMBEDDING // 4 if name == "diva" else EMBEDDING
    return Triplet()(objective.model(inputs)[:, :width], labels).item()


# What methods add competes with the loss; here it is to be seen that the loss arrives.
LIGHT = {"s2sd": {"weight": 1.0, "feature_weight": 0.5}, "diva": {"decorrelation": 0.1}}


@every()
def test_training_lowers_the_loss_itself(name):
    objective = objective_of(name, loss="contrastive", **LIGHT.get(name, {}))
    before = all_triplets(objective, name)
    train_steps(objective, optimizer_over(objective), 0, 100, one_batch=True)
    assert all_triplets(objective, name) < before / 2


@every(*NEEDS_TUPLES)
def test_losses_with_proxies_are_trained_too(name):
    objective = objective_of(name, loss="normalized_softmax:proxy_lr=0.01", **LIGHT.get(name, {}))
    before, proxies = all_triplets(objective, name), objective.loss.proxies.clone()
    train_steps(objective, optimizer_over(objective), 0, 100, one_batch=True)
    assert all_triplets(objective, name) < before
    assert not torch.equal(proxies, objective.loss.proxies)


@every()
def test_a_loss_of_another_library_trains(name):
    objective = objective_of(name, loss="pml.TripletMarginLoss:miner=(pml.MultiSimilarityMiner)")
    values = train_steps(objective, optimizer_over(objective), 0, 5)
    assert len(set(values)) == 5


@every()
def test_every_trained_parameter_is_in_one_group_or_in_an_optimiser_of_the_method(name):
    objective = objective_of(name, loss=MARGIN)
    groups = parameter_groups(objective)
    for optimizer in objective.optimizers().values():
        groups += optimizer.param_groups
    held = [id(parameter) for group in groups for parameter in group["params"]]
    assert len(held) == len(set(held))
    assert set(held) == {id(parameter) for parameter in objective.parameters() if parameter.requires_grad}


@every()
def test_a_checkpoint_holds_all_that_later_steps_depend_on(name):
    first = objective_of(name, loss=MARGIN)
    trained = (first, optimizer_over(first))
    train_steps(*trained, 0, 5)
    assert save({key: each.contiguous() for key, each in first.state_dict().items()}), "no tensor stands twice"
    second = objective_of(name, loss=MARGIN, seed=9)
    resumed = (second, optimizer_over(second))
    copy_state(trained, resumed)
    assert train_steps(*trained, 5, 12) == train_steps(*resumed, 5, 12)
    same_bits(first.state_dict(), second.state_dict())


@every()
def test_a_batch_that_gives_the_loss_nothing_is_told(name):
    objective = objective_of(name)
    value_of(objective, *batch(per_class=1))
    assert objective.is_empty
    value_of(objective, *batch())
    assert not objective.is_empty


@every()
def test_the_model_embeds_at_the_stated_width_and_as_the_loop_is_shown(name):
    objective = objective_of(name)
    inputs, labels = batch()
    _, output = value_of(objective, inputs, labels)
    assert output.embeddings.shape == (len(inputs), EMBEDDING)
    assert objective.model(inputs).shape == (len(inputs), EMBEDDING)
    assert objective.embeds == (name not in EMBEDS_NO_SINGLE_ITEMS)
    if objective.embeds:
        assert torch.allclose(output.embeddings, objective.model(inputs), atol=1e-6)


@every()
def test_a_record_builds_a_method_that_gives_it_back(name):
    registry = REGISTRIES["method"]
    made = complete(registry, record(name))
    assert record_of(registry, build(registry, made)) == made
    assert json.loads(json.dumps(made)) == made


@every()
def test_a_method_says_its_formula_reference_and_empty_case(name):
    words = REGISTRIES["method"][name].__doc__
    for part in (".. math::", "Empty:", "Reference:", "Differs:"):
        assert part in words


def run_settings(tmp_path, name, **others):
    return image_settings(
        write_images(tmp_path / "images"),
        loss="margin:beta_mode=per_class",
        miner="distance",
        embedding_size=8,
        method=record(name),
        depth="full",
        **others,
    )


@every()
@pytest.mark.parametrize("autocast", [False, True])
def test_a_run_on_images_that_is_stopped_twice_and_continued_ends_as_one_that_was_not(tmp_path, name, autocast):
    settings = run_settings(tmp_path, name, autocast=autocast)
    whole = run(settings, tmp_path / "whole")
    for step in (2, 4):
        with pytest.raises(Stop):
            run(settings, tmp_path / "parts", save_seconds=0, progress=stop_at(step))
    parts = run(settings, tmp_path / "parts")
    assert without_times(parts) == without_times(whole)
    contents = [(tmp_path / part / "model.safetensors").read_bytes() for part in ("parts", "whole")]
    assert contents[0] == contents[1]
    assert whole["protocol"]["method"]["name"] == name
    assert whole["protocol"]["embedding_size"] == 8


@every()
def test_a_finished_run_gives_its_model_back(tmp_path, name):
    settings = run_settings(tmp_path, name)
    result = run(settings, tmp_path / "run")
    prepared, items, model = load_run(tmp_path / "run")
    assert prepared.recipe.method["name"] == name
    embeddings = embed(model, items, prepared.split.test)
    assert embeddings.shape == (len(prepared.split.test), 8)
    scores = evaluate(embeddings, **evaluation_arguments(prepared.catalogue, prepared.split))
    assert scores["recall@1"] == result["scores"]["numbers"]["recall@1"]


@every()
def test_depths_work_or_are_refused_in_a_sentence(tmp_path, name):
    settings = settings_for(write_features(tmp_path / "features.npz"), embedding_size=8, method=record(name))
    if name in NEEDS_A_BACKBONE:
        with pytest.raises(ConfigError, match="nothing below the head is trained"):
            run(settings, tmp_path / "run")
        assert not (tmp_path / "run").exists()
    else:
        result = run(settings, tmp_path / "run")
        assert result["protocol"]["embedding_size"] == 8
    top = run_settings(tmp_path, name) | {"depth": "top", "cut": "blocks.1"}
    assert run(top, tmp_path / "top", cache=tmp_path / "cache")["protocol"]["depth"] == "top"


@every()
def test_samplers_that_follow_the_embeddings_work_or_are_refused_in_a_sentence(tmp_path, name):
    settings = run_settings(tmp_path, name, sampler="gc:batch_size=10,per_class=2,big_batch_size=20")
    if name in EMBEDS_NO_SINGLE_ITEMS:
        with pytest.raises(ConfigError, match="needs the embeddings of single images"):
            run(settings, tmp_path / "run")
    else:
        run(settings, tmp_path / "run")
