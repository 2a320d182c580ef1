"""Directions in integers: exact inner products, whatever the embeddings look like."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from unseen.core.errors import BatchError
from unseen.evaluation.exact.directions import SCALE, _integer_units, read_directions
from unseen.evaluation.exact.kernels.rounding import round_to_units


def test_inner_products_are_exact():
    units = read_directions(np.random.default_rng(0).normal(size=(20, 300))).integers()
    product = units @ units.T
    for i in range(20):
        for j in range(20):
            exact = sum(int(x) * int(y) for x, y in zip(units[i].tolist(), units[j].tolist(), strict=True))
            assert int(product[i, j]) == exact < 2**53
            assert Fraction(product[i, j].item()) == exact


def test_inner_products_do_not_depend_on_the_order_of_the_dimensions_or_the_width_of_a_block():
    units = read_directions(np.random.default_rng(1).normal(size=(64, 129))).integers()
    order = torch.randperm(129, generator=torch.Generator().manual_seed(0))
    integers = units @ units.T
    assert torch.equal(integers, units[:, order] @ units[:, order].T)
    assert torch.equal(integers[5:6, 7:9], units[5:6] @ units[7:9].T)


def test_cosines_agree_with_float64_to_the_rounding_of_the_grid():
    rows = np.random.default_rng(2).normal(size=(50, 128))
    directions = read_directions(rows)
    units, inverse = directions.integers(), directions.inverse_norms
    found = (units @ units.T * inverse * inverse[:, None]).numpy()
    lengths = np.linalg.norm(rows, axis=1)
    # A unit vector moves by at most sqrt(128) * 2^-27 = 8e-8.
    assert np.abs(found - rows @ rows.T / lengths / lengths[:, None]).max() < 1e-7
    assert np.allclose(np.diag(found), 1.0, atol=1e-15, rtol=0)


def test_a_copy_is_equal_to_the_bit_wherever_it_stands():
    rows = np.random.default_rng(3).normal(size=(5000, 37)).astype(np.float32)
    rows[4999] = rows[0]
    rows[4998] = 4 * rows[0]
    units = read_directions(rows).integers()
    assert torch.equal(units[0], units[4999])
    assert torch.equal(units[0], units[4998])
    assert torch.equal(units[1234], read_directions(rows[1234:1235]).integers()[0])


@pytest.mark.parametrize("length", [5e-324, 1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_the_length_of_an_embedding_does_not_matter(length):
    units = read_directions(np.array([[length, 0.0, -length]])).integers()
    assert units[0].tolist() == [round(SCALE / np.sqrt(2)), 0, -round(SCALE / np.sqrt(2))]


def test_an_embedding_of_zeros_has_similarity_zero_with_everything():
    directions = read_directions(np.array([[0.0, -0.0], [1.0, 2.0]]))
    units, inverse = directions.integers(), directions.inverse_norms
    assert (units @ units.T * inverse)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64])
def test_every_real_type_is_read(dtype):
    rows = torch.tensor([[3, 4], [0, 2]]).to(dtype)
    expected = read_directions(np.array([[3.0, 4.0], [0.0, 2.0]])).integers()
    assert torch.equal(read_directions(rows).integers(), expected)


def test_views_read_only_and_differentiable_inputs_are_read_and_left_alone():
    rows = np.arange(12.0).reshape(3, 4)[::-1, ::2]
    before = rows.copy()
    expected = read_directions(before).integers()
    assert torch.equal(read_directions(rows).integers(), expected)
    before.setflags(write=False)
    assert torch.equal(read_directions(before).integers(), expected)
    assert torch.equal(read_directions(torch.tensor(before, requires_grad=True)).integers(), expected)
    assert (rows == before).all()


def tables():
    generator = np.random.default_rng(7)
    yield generator.normal(size=(90, 33)).astype(np.float32)
    # Few dimensions: coordinates above 1/4, which float32 rounds.
    yield generator.normal(size=(90, 2))
    yield generator.integers(-1, 2, size=(90, 3))


@pytest.mark.parametrize("rows", list(tables()), ids=["wide", "narrow", "whole"])
def test_kept_directions_are_those_computed_when_asked_for(rows):
    kept, lazy = read_directions(rows), read_directions(rows, memory=1e-4)
    assert (kept.bytes > 0, lazy.bytes) == (True, 0)
    assert torch.equal(kept.inverse_norms, lazy.inverse_norms)
    picked = np.array([80, 3, 3, 41])
    for asked in (slice(None), slice(5, 40), slice(2, 80, 7), picked):
        integers = lazy.integers(asked)
        assert torch.equal(kept.integers(asked), integers)
        assert torch.equal(kept.units(asked).integers(), integers)
        assert torch.equal(kept.float32(asked), lazy.float32(asked))
        assert torch.equal(lazy.float32(asked), (integers / SCALE).float())
    taken = lazy.take(picked).take(np.array([3, 0]))
    assert (len(taken), taken.width) == (2, rows.shape[1])
    assert torch.equal(taken.integers(), kept.integers(np.array([41, 80])))
    assert torch.equal(kept.take(picked).integers(slice(1, 3)), kept.integers(np.array([3, 3])))
    assert torch.equal(taken.inverse_norms, kept.inverse_norms[[41, 80]])


def test_tables_of_different_types_stand_behind_each_other():
    first, second = np.random.default_rng(0).normal(size=(7, 5)), torch.eye(5)[:3]
    for memory in (500, 1e-5):
        both = read_directions(first, second, memory=memory)
        assert torch.equal(
            both.integers(), torch.cat([read_directions(first).integers(), read_directions(second).integers()])
        )
        assert torch.equal(both.integers(np.array([8, 0])), both.integers()[[8, 0]])
        assert torch.equal(both.integers(slice(5, 9)), both.integers()[5:9])


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_mapped_file_is_read_and_left_alone(tmp_path, mode):
    rows = np.random.default_rng(1).normal(size=(300, 9)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode=mode)
    expected = rows.copy()
    if mode != "r":
        mapped[17] = expected[17] = 3.0
    directions = read_directions(mapped[10:], memory=1e-4)
    assert torch.equal(directions.integers(), read_directions(expected[10:]).integers())
    assert (mapped == expected).all()


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


@pytest.mark.parametrize("width", [1, 2, 3, 7, 64])
def test_compiled_loops_round_as_torch_does_to_the_bit(width):
    rows = np.random.default_rng(width).normal(size=(50, width)) * 10.0 ** np.arange(-25, 25)[:, None]
    rows[:3], rows[3, 0] = 0, -0.0
    found, float32, norms = rows.copy(), np.empty((50, width), dtype=np.float32), np.empty(50)
    largest = round_to_units(found, float32, norms, SCALE)
    expected = _integer_units(torch.from_numpy(rows.copy())).numpy()
    assert found.tobytes() == expected.tobytes()
    assert float32.tobytes() == (expected / SCALE).astype(np.float32).tobytes()
    assert norms.tobytes() == np.sqrt((expected * expected).sum(axis=1)).tobytes()
    assert largest == np.abs(expected).max()


def test_a_table_read_in_threads_equals_its_rows_read_alone(monkeypatch):
    monkeypatch.setattr("unseen.evaluation.exact.directions._MANY_NUMBERS", 1)
    monkeypatch.setattr("unseen.evaluation.exact.directions._NUMBERS_AT_ONCE", 30)
    rows = np.random.default_rng(0).normal(size=(101, 3))
    together = read_directions(rows[:40], rows[40:])
    monkeypatch.undo()
    for number in range(101):
        alone = read_directions(rows[number : number + 1])
        assert torch.equal(together.integers(slice(number, number + 1)), alone.integers())
        assert together.inverse_norms[number] == alone.inverse_norms[0]
