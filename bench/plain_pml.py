"""The plain script of a user of pytorch-metric-learning and timm: the training loop of the documentation.

    python -m bench.plain_pml TASK.json OUT --marks 5,15,30,60 --began SECONDS [--seed 0] [--freeze-batch-norm]

Called by bench/quality.py. TASK.json names the `files` and `labels` of the training classes and the file of `weights`
that the backbone starts from. At each mark, minutes since `began` on the system's monotonic clock, the weights are
saved as OUT/MINUTE.pt; the clock stands still meanwhile. `--freeze-batch-norm` keeps the statistics of batch norm,
which the documentation's loop does not. Nothing of `unseen` is imported here.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import timm
import torch
from PIL import Image
from pytorch_metric_learning.losses import MultiSimilarityLoss
from pytorch_metric_learning.miners import MultiSimilarityMiner
from pytorch_metric_learning.samplers import MPerClassSampler
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

ARCHITECTURE, EMBEDDING, SIZE = "tf_efficientnet_lite0", 512, 224
BATCH, PER_CLASS, RATE, WORKERS = 112, 4, 5e-5, 2


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Image files with their labels."""

    def __init__(self, files, labels, transform):
        self.files, self.labels, self.transform = files, labels, transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.transform(Image.open(self.files[index]).convert("RGB")), self.labels[index]


def new_model(weights=None):
    """A backbone, from the file of its weights if there is one, and a linear embedding."""
    trunk: Any = timm.create_model(ARCHITECTURE, num_classes=0)
    if weights is not None:
        trunk.load_state_dict(torch.load(weights, weights_only=True))
    return nn.Sequential(trunk, nn.Linear(trunk.num_features, EMBEDDING))


def train(task, *, marks, began, seed, save, freeze_batch_norm=False):
    """Train until the last mark; `save` is called with each mark and the model."""
    torch.manual_seed(seed)
    files, labels = task["files"], task["labels"]
    model = new_model(task["weights"])
    settings = timm.data.resolve_model_data_config(model[0])
    augment = transforms.Compose(
        [
            transforms.RandomResizedCrop(SIZE, scale=(0.2, 1)),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(settings["mean"], settings["std"]),
        ]
    )
    batch = min(BATCH, len(set(labels)) * PER_CLASS)  # smaller only where the bench is tried on few classes
    sampler = MPerClassSampler(labels, m=PER_CLASS, batch_size=batch, length_before_new_iter=len(labels))
    loader = DataLoader(Images(files, labels, augment), batch_size=batch, sampler=sampler, num_workers=WORKERS)
    miner, loss_func = MultiSimilarityMiner(), MultiSimilarityLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    left = list(marks)
    model.train()
    if freeze_batch_norm:
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
    while left:
        for images, targets in loader:
            optimizer.zero_grad()
            embeddings = model(images)
            hard_pairs = miner(embeddings, targets)
            loss = loss_func(embeddings, targets, hard_pairs)
            loss.backward()
            optimizer.step()
            while left and time.monotonic() - began >= 60 * left[0]:
                stopped = time.monotonic()
                save(left.pop(0), model)
                began += time.monotonic() - stopped
            if not left:
                break


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--marks", required=True, help="minutes, with commas between them")
    parser.add_argument("--began", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--freeze-batch-norm", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    def save(minute, model):
        torch.save(model.state_dict(), options.out / f"{minute:g}.pt")

    train(
        json.loads(options.task.read_text()),
        marks=[float(minute) for minute in options.marks.split(",")],
        began=options.began,
        seed=options.seed,
        save=save,
        freeze_batch_norm=options.freeze_batch_norm,
    )


if __name__ == "__main__":
    main()
