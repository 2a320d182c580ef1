"""What every registered loss must do; a new loss is tested here by being registered."""

import importlib
import json
import math

import pytest
import torch

from tests.contracts.degenerate_batches import DEGENERATE, WIDTH, broken_batches, normal, ordinary_batch, random_batches
from tests.contracts.loss_cases import (
    CASES,
    HELD_WEIGHTS,
    NUM_CLASSES,
    Case,
    cases_of,
    is_deterministic,
    is_numeric,
    rotation_of,
    settings_of,
    takes,
)
from tests.house.test_public_names import surface
from unseen.core import registry
from unseen.core.config import build, record_of
from unseen.core.errors import BatchError, ConfigError
from unseen.core.randomness import torch_generator
from unseen.losses import Contrastive, Pairs

NAMES = registry.loss.names()
DRAWLESS = [case for case in CASES if is_deterministic(case.build(WIDTH))]


def gradients(loss, embeddings, labels, **call):
    embeddings = embeddings.clone().requires_grad_()
    loss.zero_grad()
    value = loss(embeddings, labels, **call)
    value.backward()
    return value.detach(), embeddings.grad, [parameter.grad for parameter in loss.parameters()]


def assert_finite(value, embedding_gradient, parameter_gradients):
    assert value.ndim == 0
    assert value.isfinite()
    assert embedding_gradient.isfinite().all()
    for gradient in parameter_gradients:
        assert gradient is None or gradient.isfinite().all()


def has_classes(loss):
    return any(NUM_CLASSES in parameter.shape for parameter in loss.parameters())


@pytest.mark.parametrize("precision", ["float32", "float64", "bf16 autocast"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_degenerate_batches_give_finite_values_and_gradients_or_a_batch_error(case, precision):
    for name, (embeddings, labels) in DEGENERATE.items():
        loss = case.build(embeddings.shape[1])
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16 autocast")
        dtype = {"float32": torch.float32, "float64": torch.float64, "bf16 autocast": torch.bfloat16}[precision]
        if has_classes(loss) and name in ("labels of 10^9", "negative labels"):
            with autocast, pytest.raises(BatchError, match="labels must be 0 to 11"):
                loss(embeddings.to(dtype), labels, key=3)
            continue
        with autocast:
            found = gradients(loss, embeddings.to(dtype), labels, key=3)
        assert_finite(*found)
        counts = loss.usage.counts()
        assert counts["anchors"] == len(labels)
        assert all(count >= 0 for count in counts.values())
        assert counts["num_active"] <= counts["num_tuples"]


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_random_batches_give_finite_values_and_gradients(name):
    losses = [case.build(WIDTH) for case in cases_of(name)]
    for number, (embeddings, labels) in enumerate(random_batches(1000)):
        assert_finite(*gradients(losses[number % len(losses)], embeddings.float(), labels, key=number))


@pytest.mark.parametrize("case", DRAWLESS, ids=str)
def test_the_order_of_the_batch_does_not_matter(case):
    embeddings, labels = ordinary_batch()
    loss = case.build(WIDTH).double()
    order = torch.randperm(len(labels), generator=torch_generator(4))
    value, gradient, own = gradients(loss, embeddings, labels)
    other_value, other_gradient, other_own = gradients(loss, embeddings[order], labels[order])
    torch.testing.assert_close(other_value, value)
    torch.testing.assert_close(other_gradient, gradient[order])
    torch.testing.assert_close(other_own, own)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_names_of_the_classes_do_not_matter(case):
    embeddings, labels = ordinary_batch()
    loss, renamed = case.build(WIDTH).double(), case.build(WIDTH).double()
    new_name = torch.randperm(NUM_CLASSES, generator=torch_generator(5))
    with torch.no_grad():
        for parameter, other in zip(loss.parameters(), renamed.parameters(), strict=True):
            parameter += 0.1 * normal(*parameter.shape, seed=6)
            if NUM_CLASSES in parameter.shape:
                other.index_copy_(parameter.shape.index(NUM_CLASSES), new_name, parameter)
            else:
                other.copy_(parameter)
    value, gradient, _ = gradients(loss, embeddings, labels, key=2)
    other_value, other_gradient, _ = gradients(renamed, embeddings, new_name[labels], key=2)
    torch.testing.assert_close(other_value, value)
    torch.testing.assert_close(other_gradient, gradient)
    if not has_classes(loss):
        torch.testing.assert_close(loss(embeddings, 10**12 - 7 * labels, key=2).detach(), value)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rotation_of_everything_does_not_matter(case):
    embeddings, labels = ordinary_batch()
    loss, rotated = case.build(WIDTH).double(), case.build(WIDTH).double()
    rotation = rotation_of(case.name, torch.linalg.qr(normal(WIDTH, WIDTH, seed=7)).Q)
    with torch.no_grad():
        for parameter in rotated.parameters():
            if parameter.ndim and parameter.shape[-1] == WIDTH:
                parameter.copy_(parameter @ rotation)
    value, gradient, _ = gradients(loss, embeddings, labels, key=2)
    other_value, other_gradient, _ = gradients(rotated, embeddings @ rotation, labels, key=2)
    torch.testing.assert_close(other_value, value)
    torch.testing.assert_close(other_gradient, gradient @ rotation)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_of_embeddings_and_of_own_parameters_pass_gradcheck(case):
    for name in {case.name, str(case)} & HELD_WEIGHTS.keys():
        pytest.skip(HELD_WEIGHTS[name])
    embeddings, labels = ordinary_batch(seed=8)
    loss = case.build(WIDTH).double()
    names = [name for name, _ in loss.named_parameters()]

    def value_of(embeddings, *parameters):
        own = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(loss, own, (embeddings, labels), {"key": 9})

    inputs = [embeddings, *(parameter.detach() for parameter in loss.parameters())]
    assert torch.autograd.gradcheck(value_of, [tensor.clone().requires_grad_() for tensor in inputs])


@pytest.mark.parametrize("case", DRAWLESS, ids=str)
def test_half_precision_inputs_are_computed_in_float32(case):
    exact, labels = ordinary_batch()
    rounded = exact.bfloat16()
    loss = case.build(WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        value, gradient, _ = gradients(loss, rounded, labels)
    reference, reference_gradient, _ = gradients(case.build(WIDTH).double(), rounded.double(), labels)
    assert value.dtype == torch.float32
    assert gradient.dtype == torch.bfloat16
    # From the same rounded inputs only float32 separates the two; their gradients are then rounded to bfloat16 (2^-8).
    torch.testing.assert_close(value.double(), reference, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        gradient.double(), reference_gradient, rtol=2**-7, atol=1e-3 * reference_gradient.abs().max()
    )


@pytest.mark.parametrize("case", DRAWLESS, ids=str)
def test_float32_agrees_with_float64(case):
    embeddings, labels = ordinary_batch()
    value, gradient, _ = gradients(case.build(WIDTH), embeddings.float(), labels)
    reference, reference_gradient, _ = gradients(case.build(WIDTH).double(), embeddings.float().double(), labels)
    assert reference.dtype == torch.float64
    torch.testing.assert_close(value.double(), reference, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        gradient.double(), reference_gradient, rtol=1e-4, atol=1e-4 * reference_gradient.abs().max()
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_same_key_gives_the_same_value_and_ready_pairs_do_too(case):
    embeddings, labels = ordinary_batch()
    loss = case.build(WIDTH).double()
    first = gradients(loss, embeddings, labels, key=11)
    torch.testing.assert_close(gradients(loss, embeddings, labels, key=11), first, rtol=0, atol=0)
    leaf = embeddings.clone().requires_grad_()
    loss.zero_grad()
    loss(Pairs(leaf, labels), key=11).backward()
    torch.testing.assert_close(leaf.grad, first[1], rtol=0, atol=0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_loss_works_where_only_deterministic_operations_are_allowed(case):
    embeddings, labels = ordinary_batch()
    was_on = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # as the training loop does
    try:
        assert_finite(*gradients(case.build(WIDTH), embeddings, labels, key=3))
    finally:
        torch.use_deterministic_algorithms(was_on)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_loss_without_a_key_follows_torchs_seed(case):
    embeddings, labels = ordinary_batch()
    loss = case.build(WIDTH).double()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first = loss(embeddings, labels)
        torch.manual_seed(1)
        assert torch.equal(loss(embeddings, labels), first)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_configuration_and_state_survive_a_round_trip(case):
    embeddings, labels = ordinary_batch()
    loss = case.build(WIDTH)
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter += normal(*parameter.shape, seed=12, dtype=torch.float32)
    record = json.loads(json.dumps(record_of(registry.loss, loss)))
    again = build(registry.loss, record)
    assert record_of(registry.loss, again) == record
    again.load_state_dict(loss.state_dict())
    assert torch.equal(again(embeddings.float(), labels, key=1), loss(embeddings.float(), labels, key=1))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_own_parameters_are_all_declared_once(case):
    loss = case.build(WIDTH)
    groups = loss.own_parameters()
    assert all(set(group) == {"params", "lr", "weight_decay"} for group in groups)
    declared = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(declared) == sorted(id(parameter) for parameter in loss.parameters())
    assert all(group["lr"] is None or group["lr"] >= 0 for group in groups)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("problem", broken_batches())
def test_batches_of_the_wrong_shape_are_refused_in_one_sentence(name, problem):
    embeddings, labels, words = broken_batches()[problem]
    with pytest.raises(BatchError, match=words):
        Case(name, ()).build(WIDTH)(embeddings, labels)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_losses_over_tuples_take_tuples_and_a_reference_set(case):
    embeddings, labels = ordinary_batch()
    loss = case.build(WIDTH).double()
    if not takes(loss, "indices_tuple"):
        pytest.skip("this loss is not defined on tuples")
    empty = torch.tensor([], dtype=torch.int64)
    for indices in [(empty, empty, empty), (empty, empty, empty, empty)]:
        value, gradient, _ = gradients(loss, embeddings, labels, indices_tuple=indices)
        assert value == 0
        assert not gradient.any()
        assert loss.usage.is_empty
    for indices, words in [
        ((empty, empty), "3 tensors"),
        ((torch.tensor([99]), torch.tensor([1]), torch.tensor([2])), "rows 0 to 14"),
        ((torch.tensor([0]), torch.tensor([-1]), torch.tensor([2])), "rows 0 to 14"),
        ((torch.tensor([0, 1]), torch.tensor([1]), torch.tensor([2])), "differ in length"),
        ((torch.tensor([0.5]), torch.tensor([1]), torch.tensor([2])), "integers"),
    ]:
        with pytest.raises(BatchError, match=words):
            loss(embeddings, labels, indices)
    if not takes(loss, "ref_emb"):
        return  # its memory is its reference set
    reference = normal(9, WIDTH, seed=20).requires_grad_()
    value = loss(embeddings, labels, ref_emb=reference, ref_labels=torch.arange(9) % 5, key=1)
    value.backward()
    assert value.isfinite()
    assert reference.grad.isfinite().all()
    assert reference.grad.any()
    with pytest.raises(BatchError, match="ref_labels"):
        loss(embeddings, labels, ref_emb=reference)
    with pytest.raises(BatchError, match="as wide as"):
        loss(embeddings, labels, ref_emb=reference[:, 1:], ref_labels=torch.arange(9))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_reference_set_equal_to_the_batch_keeps_self_pairs_out_only_when_it_is_the_batch(case):
    embeddings, labels = ordinary_batch()
    loss = case.build(WIDTH).double()
    if not takes(loss, "ref_emb"):
        pytest.skip("this loss takes no reference set")
    value = loss(embeddings, labels, key=1)
    assert torch.equal(loss(embeddings, labels, ref_emb=embeddings, ref_labels=labels, key=1), value)


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_documents_formula_shape_empty_case_and_reference(name):
    words = registry.loss[name].__doc__
    for part in (".. math::", "Shape:", "Empty:", "Reference:", "Differs:"):
        assert part in words, part
    assert len(words.split("\n")[0]) < 90
    assert registry.loss.entry(name).summary


def test_every_registered_loss_is_exported_under_its_name():
    public_names = surface()
    for name in NAMES:
        component = registry.loss[name]
        package = importlib.import_module(component.__module__.rpartition(".")[0])  # unseen.losses or unseen.robust
        assert getattr(package, component.__name__) is component
        assert component.__name__ in public_names[package.__name__]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e9, "1", True, [1.0]], ids=str)
def test_bad_values_of_every_numeric_setting_are_refused(name, bad):
    component = registry.loss[name]
    settings = settings_of(component)
    good = {"num_classes": NUM_CLASSES, "embedding_size": WIDTH, "loss": Contrastive()}
    for setting in [setting for setting, annotation in settings.items() if is_numeric(annotation)]:
        arguments = {key: value for key, value in good.items() if key in settings} | {setting: bad}
        with pytest.raises(ConfigError, match=setting):
            component(**arguments)
