"""Any torch module, trained with a loss of this package and evaluated on unseen classes, without a data file."""

# ruff: noqa: T201
import torch
from torch import nn

import unseen

torch.manual_seed(0)
labels = torch.arange(60).repeat_interleave(10)
signal = torch.randn(60, 8)[labels] + 0.5 * torch.randn(600, 8)  # dimensions that tell classes apart
rows = torch.cat([signal, 2 * torch.randn(600, 24)], 1)  # and three times as many of noise
seen = labels < 30

# The ten lines.
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))
loss = unseen.losses.MultiSimilarity()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
before = unseen.evaluate(model(rows[~seen]).detach(), labels[~seen])
for _ in range(60):
    value = loss(model(rows[seen]), labels[seen])
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
after = unseen.evaluate(model(rows[~seen]).detach(), labels[~seen])

print(f"recall@1 on 30 unseen classes: {before['recall@1']:.1%} before training, {after['recall@1']:.1%} after")
