"""Directions in whole numbers: exact inner products, whatever the embeddings look like."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from unseen.core.errors import BatchError
from unseen.evaluation.directions import SCALE, read_directions


def test_inner_products_are_exact():
    units = read_directions(np.random.default_rng(0).normal(size=(20, 300))).units
    product = units @ units.T
    for i in range(20):
        for j in range(20):
            exact = sum(int(x) * int(y) for x, y in zip(units[i].tolist(), units[j].tolist(), strict=True))
            assert int(product[i, j]) == exact < 2**53
            assert Fraction(product[i, j].item()) == exact


def test_inner_products_do_not_depend_on_the_order_of_the_dimensions_or_the_width_of_a_block():
    units = read_directions(np.random.default_rng(1).normal(size=(64, 129))).units
    order = torch.randperm(129, generator=torch.Generator().manual_seed(0))
    whole = units @ units.T
    assert torch.equal(whole, units[:, order] @ units[:, order].T)
    assert torch.equal(whole[5:6, 7:9], units[5:6] @ units[7:9].T)


def test_cosines_agree_with_float64_to_the_rounding_of_the_grid():
    rows = np.random.default_rng(2).normal(size=(50, 128))
    units, inverse = read_directions(rows)
    found = (units @ units.T * inverse * inverse[:, None]).numpy()
    lengths = np.linalg.norm(rows, axis=1)
    # A unit vector moves by at most sqrt(128) * 2^-27 = 8e-8.
    assert np.abs(found - rows @ rows.T / lengths / lengths[:, None]).max() < 1e-7
    assert np.allclose(np.diag(found), 1.0, atol=1e-15, rtol=0)


def test_a_copy_is_equal_to_the_bit_wherever_it_stands():
    rows = np.random.default_rng(3).normal(size=(5000, 37)).astype(np.float32)
    rows[4999] = rows[0]
    rows[4998] = 4 * rows[0]
    units = read_directions(rows).units
    assert torch.equal(units[0], units[4999])
    assert torch.equal(units[0], units[4998])
    assert torch.equal(units[1234], read_directions(rows[1234:1235]).units[0])


@pytest.mark.parametrize("length", [5e-324, 1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_the_length_of_an_embedding_does_not_matter(length):
    units = read_directions(np.array([[length, 0.0, -length]])).units
    assert units[0].tolist() == [round(SCALE / np.sqrt(2)), 0, -round(SCALE / np.sqrt(2))]


def test_an_embedding_of_zeros_has_similarity_zero_with_everything():
    units, inverse = read_directions(np.array([[0.0, -0.0], [1.0, 2.0]]))
    assert (units @ units.T * inverse)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64])
def test_every_real_type_is_read(dtype):
    rows = torch.tensor([[3, 4], [0, 2]]).to(dtype)
    expected = read_directions(np.array([[3.0, 4.0], [0.0, 2.0]])).units
    assert torch.equal(read_directions(rows).units, expected)


def test_views_read_only_and_differentiable_inputs_are_read_and_left_alone():
    rows = np.arange(12.0).reshape(3, 4)[::-1, ::2]
    before = rows.copy()
    expected = read_directions(before).units
    assert torch.equal(read_directions(rows).units, expected)
    before.setflags(write=False)
    assert torch.equal(read_directions(before).units, expected)
    assert torch.equal(read_directions(torch.tensor(before, requires_grad=True)).units, expected)
    assert (rows == before).all()


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        (np.array([[1.0], [np.nan], [np.inf]]), "embedding 1 holds a value that is not finite"),
        (torch.tensor([[1.0, -float("inf")]]), "embedding 0 holds"),
        (np.ones(3), "must have the shape"),
        (np.ones((3, 2, 2)), "must have the shape"),
        (np.ones((3, 0)), "must have the shape"),
        (np.array([["a"]]), "real numbers"),
        (np.ones((2, 2), dtype=complex), "real numbers"),
        (torch.ones(2, 2, dtype=torch.complex64), "real numbers"),
        (torch.ones(2, 2, dtype=torch.bool), "real numbers"),
    ],
)
def test_what_is_no_table_of_finite_numbers_is_refused(embeddings, message):
    with pytest.raises(BatchError, match=message):
        read_directions(embeddings)
