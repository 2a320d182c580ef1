"""N processes give the gradient of one: every loss, every miner, unequal parts and an empty one."""

import pytest
import torch

from tests.contracts.loss_cases import SILENT
from tests.distributed.gloo_pool import CASES, gradients_and_weights, joined_batch, run, steps_of
from tests.losses.loops import grad
from unseen.core.distributed import average_gradients, gather_with_gradient, rank, world_size

SPLITS: dict[int, list[tuple[int, ...]]] = {2: [(9, 4), (13, 0)], 3: [(7, 0, 6), (3, 4, 6)]}


@pytest.fixture(scope="module")
def one_process():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    inputs, labels = joined_batch()
    yield {str(case): gradients_and_weights(case, inputs, labels, steps_of(case)) for case in CASES}
    torch.set_num_threads(threads)


def relative_error(found, expected):
    return ((found - expected).norm() / expected.norm().clamp(min=1e-12)).item()


def errors(ranks, sizes, case, expected):
    """Name -> largest relative error over the ranks; the parts of the embeddings' gradient are joined first."""
    parts = [results[f"{sizes}/{case}/embeddings"] / len(sizes) for results in ranks]
    found = {"embeddings": relative_error(torch.cat(parts), expected["embeddings"])}
    for name in expected.keys() - {"embeddings"}:
        if "steps" not in name or steps_of(case, sizes) == steps_of(case):
            values = [results[f"{sizes}/{case}/{name}"] for results in ranks]
            found[name] = max(relative_error(value, expected[name]) for value in values)
    return found


# One test for all losses: starting processes is what costs here.
@pytest.mark.parametrize("world", [2, 3])
def test_processes_together_have_the_gradients_and_the_training_of_one(world, one_process, tmp_path):
    ranks = run(SPLITS[world], tmp_path)
    for case in CASES:
        for sizes in SPLITS[world]:
            for name, error in errors(ranks, sizes, case, one_process[str(case)]).items():
                assert error < (1e-8 if "steps" in name else 1e-10), f"{case} on {sizes}: {name}"


def test_every_loss_has_a_gradient_to_compare(one_process):
    assert {name for name, found in one_process.items() if not found["weight"].any()} == set(SILENT)


def test_one_process_joins_nothing():
    part = torch.ones(3, 2, requires_grad=True)
    assert gather_with_gradient(part) is part
    (part.sum() * 2).backward()
    average_gradients([part])
    assert grad(part).tolist() == [[2.0, 2.0]] * 3
    assert (rank(), world_size()) == (0, 1)
