"""The 20 degenerate batches and random small ones: embeddings and labels that break careless losses."""

import functools
import math

import torch

from unseen.core.randomness import derive, numpy_generator, torch_generator

WIDTH = 6


def _normal(rows, width=WIDTH, seed=0):
    return torch.randn(rows, width, generator=torch_generator(derive(seed, "degenerate")), dtype=torch.float64)


def _repeated(*counts):
    return torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))


def _degenerate():
    eye = torch.eye(WIDTH, dtype=torch.float64)
    some_zero = _normal(8)
    some_zero[3] = 0
    spread = 10.0 ** torch.linspace(-30, 30, 8, dtype=torch.float64).unsqueeze(1)
    return {
        "no positives": (_normal(8), torch.arange(8)),
        "one class": (_normal(6), torch.zeros(6, dtype=torch.int64)),
        "one image": (_normal(1), torch.tensor([2])),
        "two images of one class": (_normal(2), torch.tensor([1, 1])),
        "two images of two classes": (_normal(2), torch.tensor([0, 1])),
        "all identical": (_normal(1).repeat(8, 1), _repeated(4, 4)),
        "duplicates in the other class": (_normal(4).repeat(2, 1), _repeated(4, 4)),
        "all zero vectors": (torch.zeros(8, WIDTH, dtype=torch.float64), _repeated(4, 4)),
        "one zero vector": (some_zero, _repeated(2, 3, 3)),
        "antipodal": (torch.cat((eye, -eye)), torch.arange(2 * WIDTH) % 3),
        "orthogonal": (eye, torch.arange(WIDTH) // 2),
        "perfectly separated": (eye.repeat_interleave(3, 0), torch.arange(3 * WIDTH) // 3),
        "perfectly confused": (eye.repeat(3, 1), torch.arange(3 * WIDTH) // WIDTH),
        "one huge class": (_normal(20), _repeated(18, 1, 1)),
        "labels of 10^9": (_normal(8), _repeated(2, 2, 4) + 10**9),
        "negative labels": (_normal(8), _repeated(2, 2, 4) - 5),
        "one column": (_normal(8, width=1), _repeated(4, 4)),
        "norms of 1e-30": (_normal(8) * 1e-30, _repeated(4, 4)),
        "norms of 1e30": (_normal(8) * 1e30, _repeated(4, 4)),
        "norms from 1e-30 to 1e30": (_normal(8) * spread, _repeated(2, 2, 4)),
    }


DEGENERATE = _degenerate()
assert len(DEGENERATE) == 20


@functools.cache
def random_batches(count, *, classes=8, width=WIDTH):
    """Small batches of random size, composition, scale and tightness, all from one seed."""
    batches = []
    numbers = numpy_generator(derive(0, "random batches"))
    for number in range(count):
        size = int(numbers.integers(1, 17))
        labels = torch.from_numpy(numbers.integers(0, int(numbers.integers(1, classes + 1)), size))
        tightness = float(numbers.choice([0.0, 1.0, 10.0]))
        centres = _normal(classes, width, seed=number)[labels] * tightness
        scale = float(10 ** numbers.uniform(-3, 3))
        batches.append(((centres + _normal(size, width, seed=-number - 1)) * scale, labels))
    return batches


def normal(*shape, seed=0, dtype=torch.float64):
    """Normal numbers from a seed."""
    return torch.randn(shape, generator=torch_generator(seed), dtype=dtype)


def ordinary_batch(seed=0):
    """Fifteen embeddings of five classes that overlap, in float64."""
    labels = torch.arange(15) % 5
    return normal(5, WIDTH, seed=seed)[labels] + normal(15, WIDTH, seed=seed + 1), labels


def broken_batches():
    """Name -> embeddings, labels and words of the sentence that refuses them."""
    embeddings, labels = ordinary_batch()
    holed = embeddings.clone()
    holed[4, 1], holed[9, 0] = math.nan, math.inf
    return {
        "1-D embeddings": (embeddings[:, 0], labels, "n rows and d columns"),
        "3-D embeddings": (embeddings.unsqueeze(0), labels, "n rows and d columns"),
        "integers": (embeddings.long(), labels, "floating-point"),
        "a list": (embeddings.tolist(), labels, "n rows and d columns"),
        "no rows": (embeddings[:0], labels[:0], "at least 1"),
        "no columns": (embeddings[:, :0], labels, "at least 1"),
        "NaN and infinity": (holed, labels, "2 of 15 rows hold NaN or infinity, the first is row 4"),
        "2-D labels": (embeddings, labels.unsqueeze(1), "1-D"),
        "float labels": (embeddings, labels.double(), "integers"),
        "boolean labels": (embeddings, labels > 2, "integers"),
        "a list of labels": (embeddings, labels.tolist(), "1-D"),
        "too few labels": (embeddings, labels[:-1], "one for each of the 15 embeddings; got 14"),
        "no labels": (embeddings, None, "without labels"),
    }
