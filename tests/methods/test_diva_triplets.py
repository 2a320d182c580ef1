import pytest
import torch

from tests.helpers.objectives import batch
from unseen.methods.diva_triplets import intra_triplets, shared_triplets
from unseen.miners import DistanceWeighted


@pytest.mark.parametrize("mode", ["standard", "full"])
def test_the_three_of_a_shared_triplet_are_of_three_classes(mode):
    for seed in range(30):
        embeddings, labels = batch(seed, classes=3 + seed % 3)
        found = shared_triplets(embeddings, labels, seed, mode)
        assert found.anchor.tolist() == list(range(len(labels)))
        classes = torch.stack([labels[part] for part in found], dim=1)
        assert all(len(set(row)) == 3 for row in classes.tolist())


@pytest.mark.parametrize("mode", ["standard", "full"])
def test_without_a_third_class_there_is_no_shared_triplet(mode):
    for classes in (1, 2):
        embeddings, labels = batch(classes=classes)
        assert [len(part) for part in shared_triplets(embeddings, labels, 0, mode)] == [0, 0, 0]


def test_the_positive_is_uniform_over_the_samples_of_third_classes():
    embeddings = torch.eye(6)
    labels = torch.tensor([0, 1, 2, 2, 3, 3])
    counts = torch.zeros(6)
    for key in range(600):
        found = shared_triplets(embeddings, labels, key)
        if found.negative[0] == 1:
            counts[found.positive[0]] += 1
    assert counts[:2].sum() == 0
    share = counts[2:] / counts.sum()
    assert share == pytest.approx([0.25] * 4, abs=0.17)  # about 120 draws: 4 standard deviations


def test_the_full_mode_draws_the_positive_by_distance_too():
    # On a sphere in three dimensions the weight is one over the distance.
    embeddings = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.8, 0.0], [1.0, 0.9, 0.0], [0.1, 0.0, 1.0]])
    unit = torch.nn.functional.normalize(embeddings)
    near, far = ((unit[0] - unit[other]).norm().item() for other in (2, 3))
    drawn = []
    for key in range(900):
        found = shared_triplets(embeddings, torch.arange(4), key, "full")
        if found.negative[0] == 1:
            drawn.append(found.positive[0].item())
    assert set(drawn) == {2, 3}
    expected = far / (near + far)  # about 0.65
    assert drawn.count(2) / len(drawn) == pytest.approx(expected, abs=0.1)  # about 350 draws: 4 standard deviations


def test_the_random_mode_is_distance_weighting_under_permuted_labels():
    embeddings, labels = batch()
    found = shared_triplets(embeddings, labels, 3, "random")
    assert len(found.anchor) == len(labels)
    assert (labels[found.anchor] != labels[found.positive]).any()
    plain = DistanceWeighted()(embeddings, labels, key=3)
    assert not torch.equal(found.positive, plain.positive)


def test_intra_triplets_lie_in_one_class_and_are_distinct_where_it_has_three():
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 3])
    for key in range(50):
        found = intra_triplets(labels, key)
        assert found.anchor.tolist() == list(range(9))  # the last sample is alone in its class
        for anchor, positive, negative in zip(*(part.tolist() for part in found), strict=True):
            assert labels[anchor] == labels[positive] == labels[negative]
            if labels[anchor] != 2:
                assert len({anchor, positive, negative}) == 3


def test_a_class_of_two_is_drawn_from_with_replacement():
    labels = torch.tensor([0, 0])
    seen = {tuple(torch.cat(intra_triplets(labels, key)).tolist()) for key in range(300)}
    assert len(seen) == 16


def test_triplets_are_functions_of_the_key():
    embeddings, labels = batch()
    for mode in ("standard", "full", "random"):
        first, again = (shared_triplets(embeddings, labels, 5, mode) for _ in range(2))
        assert all(torch.equal(*each) for each in zip(first, again, strict=True))
    assert not torch.equal(intra_triplets(labels, 1).positive, intra_triplets(labels, 2).positive)
