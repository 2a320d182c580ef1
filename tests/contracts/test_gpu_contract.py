"""What every component must do with tensors on a GPU, on a machine without one: all it makes is made on that device.

Pretended tensors (`tests.helpers.pretend_cuda`) have values, so results are compared with those of the CPU. torch's own
fake tensors check what needs no values. A new component is tested here by being registered.
"""

import copy
import inspect

import pytest
import torch
from safetensors.torch import load_file
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.contracts.degenerate_batches import DEGENERATE, WIDTH, ordinary_batch
from tests.contracts.loss_cases import CASES
from tests.contracts.test_backbone_contract import NAMES as BACKBONES
from tests.contracts.test_backbone_contract import made
from tests.helpers.objectives import objective_of, optimizer_over, train_steps
from tests.helpers.pretend_cuda import CUDA, NotDeterministic, OnCuda, WrongDevice, pretended_cuda
from tests.helpers.small_runs import Stop, image_settings, settings_for, stop_at, write_features, write_images
from unseen.core import registry
from unseen.core.config import build
from unseen.evaluation import evaluate
from unseen.losses import PairTerms
from unseen.runs import run
from unseen.training.loop import deterministic


def on_cpu(found):
    """What was found, tensors moved to the CPU after a check that all were on the GPU."""
    assert all(isinstance(each, OnCuda) for each in found if isinstance(each, torch.Tensor))
    return [each.cpu() if isinstance(each, torch.Tensor) else each for each in found]


def value_and_gradients(loss, embeddings, labels):
    with deterministic():  # as in a training run
        value = loss(embeddings, labels, key=3)
        value.backward()
    return [value.detach(), embeddings.grad, *(parameter.grad for parameter in loss.parameters())]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_loss_on_the_gpu_is_that_on_the_cpu_with_its_gradients(case):
    rows, labels = ordinary_batch()
    loss = case.build(WIDTH)
    other = copy.deepcopy(loss)
    expected = value_and_gradients(loss, rows.float().requires_grad_(), labels)
    with pretended_cuda():
        found = on_cpu(value_and_gradients(other.to("cuda"), rows.float().to("cuda").requires_grad_(), labels.cuda()))
        assert all(isinstance(each, OnCuda) for each in (*other.parameters(), *other.buffers()))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", registry.loss.names())
def test_degenerate_batches_of_a_loss_stay_on_the_gpu(name):
    case = next(case for case in CASES if case.name == name)
    for title in ("no positives", "one class", "one image", "all identical", "all zero vectors", "one huge class"):
        rows, labels = DEGENERATE[title]
        loss = case.build(rows.shape[1])
        with pretended_cuda():
            on_cpu(value_and_gradients(loss.to("cuda"), rows.float().cuda().requires_grad_(), labels.cuda()))


@pytest.mark.parametrize("name", registry.miner.names())
def test_a_miner_on_the_gpu_draws_the_tuples_of_the_cpu(name):
    for rows, labels in (ordinary_batch(), DEGENERATE["no positives"], DEGENERATE["all identical"]):
        expected = build(registry.miner, name)(rows.float(), labels, key=1)
        with pretended_cuda(), deterministic():
            found = on_cpu(build(registry.miner, name)(rows.float().cuda(), labels.cuda(), key=1))
        torch.testing.assert_close(found, list(expected), rtol=0, atol=0)


@pytest.mark.parametrize("record", [*registry.uncertainty.names(), "kl:samples=7", "chi_square:rho=30"])
def test_the_worst_case_of_a_set_on_the_gpu_is_that_on_the_cpu(record):
    rows, labels = ordinary_batch()
    same = labels.unsqueeze(1) == labels
    values, masks = (rows @ rows.T).float().sin(), (same & ~torch.eye(len(labels), dtype=torch.bool), ~same)
    uncertainty = build(registry.uncertainty, record)
    expected = uncertainty.worst_case(PairTerms(values, *masks), key=5)
    with pretended_cuda():
        terms = PairTerms(values.cuda(), *(mask.cuda() for mask in masks))
        with deterministic():
            found = on_cpu(uncertainty.worst_case(terms, key=5))
    torch.testing.assert_close(found, list(expected))


@pytest.mark.parametrize("name", registry.method.names())
def test_a_method_trains_on_the_gpu_as_on_the_cpu(name):
    objective = objective_of(name)
    expected = train_steps(objective, optimizer_over(objective), 0, 5)
    objective = objective_of(name)
    with pretended_cuda():
        objective = objective.to("cuda")
        found = train_steps(objective, optimizer_over(objective), 0, 5, device=CUDA)
        assert all(isinstance(each, OnCuda) for each in objective.state_dict().values())
    assert found == pytest.approx(expected, rel=1e-4)


def runs_alike(settings, tmp_path, monkeypatch):
    """Run on the CPU, and on the GPU with a stop half-way: weights and recall must be the same."""
    folders, cache = (tmp_path / "cpu", tmp_path / "gpu"), tmp_path / "cache"
    expected = run(settings, folders[0], workers=0)
    monkeypatch.setattr("unseen.runs.run_recipe.device", lambda: CUDA)
    with pretended_cuda():
        with pytest.raises(Stop):
            run(settings, folders[1], workers=0, cache=cache, save_seconds=0, progress=stop_at(1))
        found = run(settings, folders[1], workers=0, cache=cache)
    weights = [load_file(folder / "model.safetensors") for folder in folders]
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-3, atol=1e-5)
    # Clusters start from rows ordered by a hash of their digits, the last of which differ.
    recalls = [result["scores"]["numbers"]["recall@1"] for result in (found, expected)]
    assert recalls[0] == pytest.approx(recalls[1], abs=0.05)


@pytest.mark.parametrize("name", registry.sampler.names())
def test_a_run_on_the_gpu_ends_as_on_the_cpu_with_every_sampler(name, tmp_path, monkeypatch):
    known = inspect.signature(registry.sampler[name]).parameters
    sizes = {"batch_size": 10, "per_class": 2, "big_batch_size": 20}
    sampler = {"name": name} | {key: size for key, size in sizes.items() if key in known}
    features = write_features(tmp_path / "features.npz", classes=9, per_class=4)
    runs_alike(settings_for(features, sampler=sampler, epochs=1, choose_by="last"), tmp_path, monkeypatch)


RUNS: dict[str, dict[str, object]] = {
    "full": {},
    "full with averages": {"average": 0.9, "blend": 0.5, "head_epochs": 1},
    "full, sgd, clipped": {"clip_gradients": 0.5, "optimizer": "sgd", "schedule": "cosine:warmup=3"},
    "frozen": {"depth": "frozen"},
    "top": {"depth": "top", "cut": "blocks.1", "optimizer": "adamw"},
}


@pytest.mark.parametrize("title", RUNS)
def test_a_run_on_images_ends_on_the_gpu_as_on_the_cpu(title, tmp_path, monkeypatch):
    settings = image_settings(write_images(tmp_path / "images"))
    runs_alike(settings | {"epochs": 2, "choose_by": "last"} | RUNS[title], tmp_path, monkeypatch)


def test_embeddings_on_the_gpu_are_evaluated():
    rows, labels = ordinary_batch()
    with pretended_cuda():
        found = evaluate(rows.cuda(), labels.cuda())
    assert dict(found) == dict(evaluate(rows, labels))


@pytest.mark.parametrize("name", BACKBONES)
def test_a_backbone_trains_on_the_gpu(name):
    model, inputs = made(name)
    with pretended_cuda():
        model = model.to("cuda").train()
        with deterministic():
            output = model(inputs.cuda())
            output.square().sum().backward()
        on_cpu([output, *(parameter.grad for parameter in model.parameters()), *model.buffers()])


@pytest.mark.parametrize("name", BACKBONES)
def test_a_backbone_of_fake_tensors_stays_on_the_gpu(name):
    model, inputs = made(name)
    weights = {key: each.detach() for key, each in (*model.named_parameters(), *model.named_buffers())}
    with FakeTensorMode() as mode:
        moved = {key: mode.from_tensor(each).to("cuda") for key, each in weights.items()}
        output = torch.func.functional_call(model.train(), moved, (mode.from_tensor(inputs).to("cuda"),))
    assert output.device.type == "cuda"
    assert output.shape == (4, 6)


def careless_loss(embeddings, labels):
    """A loss with the bug that is looked for."""
    place = torch.arange(len(labels))
    return (embeddings.square().sum(1) * place).sum()


def test_a_tensor_made_on_the_wrong_device_is_found():
    rows, labels = ordinary_batch()
    with pretended_cuda(), pytest.raises(WrongDevice, match="cuda:0 and on cpu"):
        careless_loss(rows.cuda(), labels.cuda())
    with FakeTensorMode() as mode, pytest.raises(RuntimeError, match="at least two devices"):
        careless_loss(mode.from_tensor(rows).to("cuda"), mode.from_tensor(labels).to("cuda"))


def test_what_a_gpu_refuses_is_refused_and_what_it_allows_is_allowed():
    generator = torch.Generator()
    with pretended_cuda():
        rows = torch.ones(3, 2, device="cuda")
        for refused in (
            lambda: rows.numpy(),
            lambda: rows + torch.ones(3, 1),
            lambda: torch.ones(3)[torch.arange(2, device="cuda")],
            lambda: rows.index_select(0, torch.arange(2)),
            lambda: torch.rand(3, device="cuda", generator=generator),
            lambda: rows.normal_(generator=generator),
        ):
            with pytest.raises(WrongDevice):
                refused()
        with deterministic():
            for refused in (
                lambda: torch.bincount(rows[:, 0].long(), rows[:, 0]),
                lambda: rows.put_(torch.arange(2, device="cuda"), rows[0], accumulate=True),
                lambda: rows[0].scatter_reduce(0, torch.arange(2, device="cuda"), rows[1], "amin"),
            ):
                with pytest.raises(NotDeterministic):
                    refused()
        assert torch.bincount(rows[:, 0].long()).tolist() == [0, 3]
        assert rows[torch.tensor([True, False, True])].shape == (2, 2)
        assert (rows * torch.tensor(2.0)).sum().item() == 12
        assert type(rows.cpu()) is torch.Tensor
