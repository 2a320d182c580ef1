"""What every registered uncertainty set must do; a new set is tested here by being registered."""

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize

import unseen.robust
from tests.contracts.cases import case_of
from tests.contracts.loss_cases import is_numeric, settings_of
from tests.helpers.present import present
from unseen.core import registry
from unseen.core.config import build, record_of
from unseen.core.errors import ConfigError
from unseen.core.randomness import numpy_generator, torch_generator
from unseen.losses import PairTerms


class Strength(NamedTuple):
    """The settings at which a set is the mean and the maximum, to a tolerance."""

    mean: str
    maximum: str
    tolerance: float


# None for a set without a strength. GroupedKL is its groups' means and maxima: here one group of all.
STRENGTHS: dict[str, Strength | None] = {
    "mean": None,
    "max": None,
    "top_k": Strength("top_k:k=1000", "top_k:k=1", 1e-12),
    "top_k_balanced": None,  # of both halves; tests/robust/test_top_k_balanced.py
    "kl": Strength("kl:gamma=1e6", "kl:gamma=1e-4", 1e-4),
    "chi_square": Strength("chi_square:rho=0", "chi_square:rho=1e6", 1e-9),
    "grouped_kl": Strength(
        "grouped_kl:grouping=all,gamma_positive=1e6,gamma_negative=1e6",
        "grouped_kl:grouping=all,gamma_positive=1e-4,gamma_negative=1e-4",
        1e-4,
    ),
}
# Configurations whose weights are one simplex, with a few sizes each.
FLAT = [
    "mean",
    "max",
    "top_k:k=1",
    "top_k:k=3",
    "top_k_balanced:k=2",
    "top_k_balanced:k=4",
    "kl",
    "kl:gamma=1",
    "kl:samples=7",
    "chi_square:rho=0.1",
    "chi_square:rho=2",
    "chi_square:rho=30",
    "grouped_kl:grouping=all",
    "grouped_kl:grouping=sign,gamma_negative=0.5",
]
NAMES = registry.uncertainty.names()


def terms_of(losses):
    """A vector of losses as one row of pairs, every other one positive."""
    values = torch.as_tensor(losses, dtype=torch.float64).view(1, -1)
    is_positive = (torch.arange(values.shape[1]) % 2 == 0).view(1, -1)
    return PairTerms(values, is_positive, ~is_positive)


def worst(text, losses, key=0):
    return build(registry.uncertainty, text).worst_case(terms_of(losses), key=key)


def vectors(count=100):
    """Vectors of 2 to 9 losses: spread, tied, with zeros."""
    numbers = numpy_generator(3)
    for number in range(count):
        size = int(numbers.integers(2, 10))
        losses = numbers.exponential(1, size)
        yield (losses.round(0) if number % 3 == 0 else losses).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_every_set_has_its_cases_here_and_is_exported(name):
    case_of(STRENGTHS, name, __file__)
    case_of({text.split(":")[0]: text for text in FLAT}, name, __file__)
    component = registry.uncertainty[name]
    assert getattr(unseen.robust, component.__name__) is component


def test_no_case_is_of_a_set_that_is_gone():
    assert {*STRENGTHS, *(text.split(":")[0] for text in FLAT)} == set(NAMES)


@pytest.mark.parametrize("text", FLAT)
def test_weights_are_on_the_simplex_and_detached_and_the_gradient_is_the_weights(text):
    for losses in vectors():
        terms = terms_of(losses)
        values = terms.values.clone().requires_grad_()
        found = build(registry.uncertainty, text).worst_case(terms._replace(values=values), key=1)
        assert not found.weights.requires_grad
        assert found.weights.min() >= 0
        assert found.weights.sum().item() == pytest.approx(1, abs=1e-12)
        found.value.backward()
        torch.testing.assert_close(values.grad, found.weights, rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in NAMES if STRENGTHS.get(name)])
def test_its_strength_leads_from_the_mean_to_the_maximum(name):
    strength = present(STRENGTHS[name])
    for losses in vectors(30):
        mean, maximum = sum(losses) / len(losses), max(losses)
        assert worst(strength.mean, losses).value.item() == pytest.approx(mean, abs=1e-5)
        found = worst(strength.maximum, losses)
        assert found.value.item() == pytest.approx(maximum, abs=strength.tolerance * 10)
        assert (found.weights * terms_of(losses).values).sum().item() == pytest.approx(maximum, abs=strength.tolerance)


def numeric_maximum(text, losses):
    """The largest objective over the set by a general solver; returns value and tolerance."""
    name, _, settings = text.partition(":")
    settings = dict(part.split("=") for part in settings.split(",") if part)
    n = len(losses)
    if name in ("mean", "max", "top_k", "top_k_balanced"):
        bound = {"mean": 1 / n, "max": 1.0}.get(name)
        rows, sums = [[1.0] * n], [1.0]
        if name == "top_k":
            bound = 1 / min(int(settings["k"]), n)
        if name == "top_k_balanced":
            bound = 1 / (2 * min(int(settings["k"]) // 2, n // 2))
            rows, sums = [[1.0 - i % 2 for i in range(n)], [float(i % 2) for i in range(n)]], [0.5, 0.5]
        solved = linprog([-x for x in losses], A_eq=rows, b_eq=sums, bounds=(0, bound))
        return -solved.fun
    if name == "chi_square":
        return chi_square_by_bisection(losses, float(settings["rho"]))
    if "sign" in settings.values():
        halves = [(losses[0::2], 0.1), (losses[1::2], float(settings["gamma_negative"]))]
        return sum(kl_by_slsqp(half, gamma) for half, gamma in halves) / 2
    return kl_by_slsqp(losses, float(settings.get("gamma", 0.1)))


def kl_by_slsqp(losses, gamma):
    losses, n = np.array(losses), len(losses)
    solved = minimize(
        lambda p: gamma * (p * np.log(p * n)).sum() - p @ losses,
        np.full(n, 1 / n),
        jac=lambda p: gamma * (np.log(p * n) + 1) - losses,
        bounds=[(1e-12, 1)] * n,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-13, "maxiter": 500},
    )
    return -solved.fun


def chi_square_by_bisection(losses, rho):
    """Nested: eta so that the weights sum to 1, nu so that the ball is reached."""
    n = len(losses)

    def weights(nu):
        low, high = min(losses) - nu * n, max(losses) + nu
        for _ in range(52):
            eta = (low + high) / 2
            total = sum(max(0.0, 1 + (x - eta) / nu) for x in losses) / n
            low, high = (eta, high) if total > 1 else (low, eta)
        found = [max(0.0, 1 + (x - eta) / nu) for x in losses]
        return [p / sum(found) for p in found]

    low, high = 1e-6, 1e6
    for _ in range(40):
        nu = math.sqrt(low * high)
        is_outside = sum((n * p - 1) ** 2 for p in weights(nu)) > 2 * rho
        low, high = (nu, high) if is_outside else (low, nu)
    return sum(p * x for p, x in zip(weights(high), losses, strict=True))


@pytest.mark.parametrize("text", [text for text in FLAT if "samples" not in text])
def test_its_value_is_that_of_a_numeric_maximiser_on_100_vectors(text):
    for losses in vectors(100):
        # SLSQP stops at about the root of its tolerance; LPs and bisections are exact.
        tolerance = 1e-5 if "kl" in text else 1e-8
        assert worst(text, losses).value.item() == pytest.approx(numeric_maximum(text, losses), abs=tolerance), losses


@pytest.mark.parametrize("text", FLAT)
def test_equal_losses_give_that_loss(text):
    for level, size in [(0.0, 5), (0.7, 2), (1e8, 9), (1 / 3, 7)]:
        found = worst(text, [level] * size)
        assert found.value.item() == pytest.approx(level, rel=1e-12)
        assert found.weights.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("text", [text for text in FLAT if "balanced" not in text and "sign" not in text])
def test_a_single_pair_has_all_the_weight(text):
    found = worst(text, [0.3])
    assert found.weights.tolist() == [[1.0]]
    assert found.value.item() == pytest.approx(0.3)


@pytest.mark.parametrize("text", [*FLAT, "grouped_kl", "grouped_kl:reduction=mean"])
def test_no_pairs_give_a_zero_that_is_connected_and_no_weights(text):
    for size in (1, 4):
        values = torch.ones(1, size, requires_grad=True)
        nothing = torch.zeros(1, size, dtype=torch.bool)
        found = build(registry.uncertainty, text).worst_case(PairTerms(values, nothing, nothing), key=0)
        assert found.value.item() == 0
        assert not found.weights.any()
        found.value.backward()
        assert not present(values.grad).any()


@pytest.mark.parametrize("text", [text for text in FLAT if "samples" not in text])
def test_order_does_not_matter_and_harder_losses_never_lower_the_value(text):
    for losses in vectors(30):
        swapped = [*losses[2 : 2 * (len(losses) // 2)], *losses[:2], *losses[2 * (len(losses) // 2) :]]
        value = worst(text, losses).value.item()
        assert worst(text, swapped).value.item() == pytest.approx(value, abs=1e-9)
        harder = [x + (0.3 if i == 1 else 0) for i, x in enumerate(losses)]
        assert worst(text, harder).value.item() >= value - 1e-9


@pytest.mark.parametrize("text", FLAT)
def test_a_pair_of_a_batch_counts_once_in_either_order(text):
    values = torch.rand(6, 6, generator=torch_generator(2), dtype=torch.float64)
    values = values + values.T
    same = torch.arange(6).unsqueeze(1) % 2 == torch.arange(6) % 2
    positive = same & ~torch.eye(6, dtype=torch.bool)
    component = build(registry.uncertainty, text)
    whole = component.worst_case(PairTerms(values, positive, ~same, True), key=5)
    upper = component.worst_case(PairTerms(values, positive.triu(1), (~same).triu(1)), key=5)
    torch.testing.assert_close(whole.value, upper.value)
    assert not whole.weights.tril().any()


@pytest.mark.parametrize("name", NAMES)
def test_a_set_documents_primal_gradient_empty_case_and_reference(name):
    words = registry.uncertainty[name].__doc__
    for part in (".. math::", "Primal:", "Gradient:", "Empty:", "Reference:"):
        assert part in words, part


@pytest.mark.parametrize("text", FLAT)
def test_a_set_gives_back_its_record(text):
    component = build(registry.uncertainty, text)
    record = record_of(registry.uncertainty, component)
    assert record_of(registry.uncertainty, build(registry.uncertainty, record)) == record


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, "1", True, [1.0]], ids=str)
def test_bad_values_of_every_number_are_refused(name, bad):
    component = registry.uncertainty[name]
    for setting in [setting for setting, annotation in settings_of(component).items() if is_numeric(annotation)]:
        with pytest.raises(ConfigError, match=setting):
            component(**{setting: bad})
