"""Heads that begin where the features are, against closed forms."""

import pytest
import torch
from torch import nn

from unseen.core.errors import ConfigError
from unseen.models import ConcatenatedHeads, initialize_linear_head
from unseen.models.heads import (
    SHRINKAGE,
    WITHIN_CLASS_SHRINKAGE,
    discriminant_projection,
    principal_projection,
)


def rows(count=200, width=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    stretched = torch.randn(count, width, generator=generator) * torch.tensor([5.0, 3, 2, 1, 0.5, 0.1])[:width]
    return stretched + torch.arange(width)


def cosines(table):
    unit = nn.functional.normalize(table.double(), dim=1)
    return unit @ unit.T


def test_the_identity_start_of_full_width_changes_no_angle():
    head = nn.Linear(6, 6)
    initialize_linear_head(head, rows(), "identity")
    torch.testing.assert_close(cosines(head(rows())), cosines(rows()), rtol=0, atol=1e-5)


def test_whitened_features_have_no_correlation_and_the_variances_that_shrinkage_says():
    features = rows()
    head = nn.Linear(6, 4)
    initialize_linear_head(head, features, "whitening")
    embeddings = head(features).detach().double()
    torch.testing.assert_close(embeddings.mean(0), torch.zeros(4).double(), rtol=0, atol=1e-6)
    found = embeddings.T @ embeddings / len(embeddings)
    variances = torch.linalg.eigvalsh(torch.cov(features.double().T, correction=0)).flip(0)
    expected = variances[:4] / (variances[:4] + SHRINKAGE * variances.mean())
    torch.testing.assert_close(found, torch.diag(expected / expected.sum()), rtol=0, atol=1e-5)


def classes(count=200, classes=10):
    return torch.arange(count) % classes


def test_lda_shortens_directions_in_which_the_members_of_a_class_differ():
    """Two directions separate the classes equally; along the first one their members are spread ten times as wide."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) // 40
    centres = 3 * torch.randn(10, 2, generator=generator)
    features = centres[labels] + torch.randn(400, 2, generator=generator) * torch.tensor([10.0, 0.1])
    weight, _ = discriminant_projection(features, labels, 2)
    share = weight.square().sum(0)
    assert share[1] > 1.3 * share[0]


def test_lda_is_the_textbook_solution_of_the_generalised_eigenvalue_problem():
    """Rows of W are eigenvectors of (S_w + shrinkage)^-1 S_t, in the order of their eigenvalues, here by scipy."""
    import numpy as np
    from scipy.linalg import eigh

    features, labels = rows().double(), classes()
    weight, bias = discriminant_projection(features, labels, 4)
    table = features.numpy()
    within = sum(
        (members - members.mean(0)).T @ (members - members.mean(0))
        for members in (table[labels.numpy() == label] for label in range(10))
    ) / len(table)
    within = within + WITHIN_CLASS_SHRINKAGE * np.trace(within) / 6 * np.eye(6)
    _, vectors = eigh(np.cov(table.T, bias=True), within)
    for direction, expected in zip(weight.double().numpy(), vectors.T[::-1], strict=False):
        cosine = direction @ expected / np.linalg.norm(direction) / np.linalg.norm(expected)
        assert abs(cosine) == pytest.approx(1, abs=1e-6)
    embeddings = features @ weight.double().T + bias.double()
    torch.testing.assert_close(embeddings.mean(0), torch.zeros(4).double(), rtol=0, atol=1e-5)
    assert embeddings.square().sum(1).mean().item() == pytest.approx(1, abs=1e-5)


def test_lda_does_not_depend_on_the_names_of_classes_or_the_scale_of_features():
    weight, _ = discriminant_projection(rows(), classes(), 3)
    renamed, _ = discriminant_projection(rows(), 1000 - 7 * classes(), 3)
    scaled, _ = discriminant_projection(100 * rows(), classes(), 3)
    torch.testing.assert_close(renamed, weight)
    torch.testing.assert_close(100 * scaled.abs(), weight.abs(), rtol=1e-4, atol=1e-5)


def test_lda_of_classes_of_one_image_is_the_projection_on_principal_directions():
    features = rows() - rows().mean(0)
    weight, _ = discriminant_projection(features, torch.arange(len(features)), 3)
    expected, _ = principal_projection(features, 3, whiten=False)
    torch.testing.assert_close(weight.abs(), expected.abs(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("features", [rows(count=2), torch.zeros(5, 6), torch.ones(5, 6), rows(count=1)])
def test_lda_of_few_equal_or_empty_features_gives_a_finite_head(features):
    head = nn.Linear(6, 6)
    initialize_linear_head(head, features, "lda", torch.arange(len(features)) // 2)
    assert all(parameter.isfinite().all() for parameter in head.parameters())


@pytest.mark.parametrize("start", ["identity", "whitening"])
def test_embeddings_begin_with_a_mean_squared_length_of_one(start):
    head = nn.Linear(6, 3)
    initialize_linear_head(head, rows(), start)
    assert head(rows()).square().sum(1).mean().item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("start", ["identity", "whitening"])
@pytest.mark.parametrize("features", [rows(count=2), torch.zeros(5, 6), torch.ones(5, 6), rows(count=1)])
def test_few_equal_or_empty_features_give_a_finite_head(start, features):
    head = nn.Linear(6, 6)
    initialize_linear_head(head, features, start)
    assert all(parameter.isfinite().all() for parameter in head.parameters())


def test_an_embedding_wider_than_the_features_is_filled_with_zeros():
    head = nn.Linear(6, 9)
    initialize_linear_head(head, rows(), "identity")
    assert torch.equal(head.weight[6:], torch.zeros(3, 6))
    torch.testing.assert_close(cosines(head(rows())), cosines(rows()), rtol=0, atol=1e-5)


def test_a_random_start_and_a_missing_head_are_left_alone():
    head = nn.Linear(6, 3)
    before = head.weight.detach().clone()
    initialize_linear_head(head, rows(), "random")
    assert torch.equal(head.weight, before)
    initialize_linear_head(nn.Identity(), rows(), "whitening")
    with pytest.raises(ConfigError, match="head must be one of 'random', 'identity', 'whitening'"):
        initialize_linear_head(head, rows(), "zero")  # type: ignore[arg-type]  # wrong on purpose


def test_the_projection_does_not_depend_on_the_order_of_rows_up_to_signs():
    weight, _ = principal_projection(rows(), 3, whiten=True)
    again, _ = principal_projection(rows().flip(0), 3, whiten=True)
    torch.testing.assert_close(weight.abs(), again.abs(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [8, 20])
def test_of_heads_side_by_side_each_starts_as_it_would_alone(width):
    features = torch.randn(40, 12, generator=torch.Generator().manual_seed(0))
    alone, together = nn.Linear(12, width), ConcatenatedHeads(12, 4 * width, weights=(1.0, 1.0, 1.0, 1.0))
    for head in (alone, together):
        initialize_linear_head(head, features, "whitening")
    for part in together.outputs(features):
        assert torch.allclose(part, alone(features), atol=1e-6)


def test_heads_side_by_side_give_rows_of_length_one_and_survive_zeros():
    head = ConcatenatedHeads(3, 4, weights=(0.5, 2.0))
    assert head(torch.ones(2, 3)).norm(dim=1).tolist() == pytest.approx([1.0, 1.0])
    with torch.no_grad():
        head.linear.weight.zero_()
        head.linear.bias.zero_()
    features = torch.zeros(2, 3, requires_grad=True)
    head(features).sum().backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()
