"""N processes give the gradient of one (PROMISES R8): every loss, every miner, unequal parts and an empty one."""

import pytest
import torch
from gloo_pool import CASES, gradients_and_weights, joined_batch, run

from unseen.core.distributed import average_gradients, gather_with_gradient, rank, world_size

SPLITS = {2: [(9, 4), (13, 0)], 3: [(7, 0, 6), (3, 4, 6)]}


@pytest.fixture(scope="module")
def one_process():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield {str(case): gradients_and_weights(case, *joined_batch()) for case in CASES}
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=[2, 3], ids="{} processes".format)
def pool(request, tmp_path_factory):
    return SPLITS[request.param], run(SPLITS[request.param], tmp_path_factory.mktemp("pool"))


def relative_error(found, expected):
    return ((found - expected).norm() / expected.norm().clamp(min=1e-12)).item()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_processes_together_have_the_gradients_and_the_training_of_one(case, pool, one_process):
    splits, ranks = pool
    expected = one_process[str(case)]
    for sizes in splits:
        parts = [results[f"{sizes}/{case}/embeddings"] / len(sizes) for results in ranks]
        assert relative_error(torch.cat(parts), expected["embeddings"]) < 1e-10
        for name in expected.keys() - {"embeddings"}:
            for results in ranks:
                limit = 1e-8 if "steps" in name else 1e-10
                assert relative_error(results[f"{sizes}/{case}/{name}"], expected[name]) < limit, name


def test_every_loss_has_a_gradient_to_compare(one_process):
    assert all(found["weight"].any() for found in one_process.values())


def test_one_process_joins_nothing():
    part = torch.ones(3, 2, requires_grad=True)
    assert gather_with_gradient(part) is part
    (part.sum() * 2).backward()
    average_gradients([part])
    assert (part.grad == 2).all()
    assert (rank(), world_size()) == (0, 1)
