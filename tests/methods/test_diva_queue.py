import math

import pytest
import torch

from unseen.core.randomness import torch_generator
from unseen.methods.diva_queue import Queue, queue_weights, weighted_info_nce


def unit(rows, width, seed=0):
    drawn = torch.randn(rows, width, generator=torch_generator(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(drawn)


def test_a_queue_gives_the_newest_keys_the_oldest_first():
    queue = Queue(5, 1)
    put = []
    for number, count in enumerate((2, 2, 3, 1, 8, 2)):
        keys = torch.arange(count).unsqueeze(1) + 100.0 * number
        queue.put(keys)
        put += keys.flatten().tolist()
        assert queue.content().flatten().tolist() == put[-5:]
    assert queue.rows.shape == (5, 1)
    assert queue.enqueued == len(put)


def test_an_empty_queue_holds_nothing_and_what_it_gives_is_a_copy():
    queue = Queue(3, 2)
    assert queue.content().shape == (0, 2)
    queue.put(torch.ones(2, 2))
    queue.content().zero_()
    assert torch.equal(queue.content(), torch.ones(2, 2))


def test_a_queue_comes_back_from_its_state():
    queue, again = Queue(4, 1), Queue(4, 1)
    queue.put(torch.arange(6.0).unsqueeze(1))
    again.load_state_dict(queue.state_dict())
    for each in (queue, again):
        each.put(torch.tensor([[9.0]]))
    assert queue.content().flatten().tolist() == again.content().flatten().tolist() == [3, 4, 5, 9]


def loop_weights(similarity, width):
    """Inverse densities at max(d, 0.5), nothing beyond 1.4, shares of each row."""
    rows = []
    for row in similarity.tolist():
        weights = []
        for each in row:
            distance = math.sqrt(2 - 2 * each)
            if distance > 1.4:
                weights.append(0.0)
                continue
            distance = max(distance, 0.5)
            weights.append(distance ** (2 - width) * (1 - distance**2 / 4) ** (-(width - 3) / 2))
        total = sum(weights)
        rows.append([each / total if total else 1 / len(row) for each in weights])
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("width", [3, 8])
def test_weights_equal_their_loop_and_those_of_a_query_sum_to_one(width):
    similarity = unit(6, width, 1) @ unit(9, width, 2).T
    found = queue_weights(similarity, width)
    assert torch.allclose(found, loop_weights(similarity, width), atol=1e-9)
    assert torch.allclose(found.sum(1), torch.ones(6, dtype=torch.float64))


def test_where_all_keys_are_far_they_weigh_the_same():
    assert queue_weights(torch.tensor([[-0.9, -0.5, -1.0]]), 8).tolist() == [pytest.approx([1 / 3] * 3)]


def test_on_the_other_axis_the_weights_of_a_key_sum_to_one():
    similarity = unit(6, 4, 1) @ unit(9, 4, 2).T
    assert torch.allclose(queue_weights(similarity, 4, "queries").sum(0), torch.ones(9, dtype=torch.float64))


def test_the_value_is_the_cross_entropy_of_the_own_key():
    queries, keys, queue = unit(3, 4, 1), unit(3, 4, 2), unit(5, 4, 3)
    weights = queue_weights(queries @ queue.T, 4)
    total = 0.0
    for row in range(3):
        logits = [float(queries[row] @ keys[row])]
        logits += [float(queries[row] @ queue[other] * weights[row, other]) for other in range(5)]
        exponentials = [math.exp(each / 0.1) for each in logits]
        total -= math.log(exponentials[0] / sum(exponentials)) / 3
    found = weighted_info_nce(queries, keys, queue, temperature=0.1, axis="queue")
    assert found.item() == pytest.approx(total, rel=1e-9)


def test_an_empty_queue_costs_nothing():
    queries = unit(3, 4).requires_grad_()
    value = weighted_info_nce(queries, unit(3, 4, 1), unit(1, 4)[:0], temperature=0.1, axis="queue")
    value.backward()
    assert value.item() == 0
    assert queries.grad.isfinite().all()
