"""Batches that are told apart: restarted.py CHECKPOINT. Each moves a weight of its own by 1/ranks: a weight says
how often its batch was applied. Rank 3 is killed in the third epoch, unless it has begun with a checkpoint.
"""

import os
import pathlib
import signal
import sys

import torch

import stretto

EPOCHS, BATCHES = 5, 10

checkpoint = pathlib.Path(sys.argv[1])
model = torch.nn.ParameterList([torch.zeros(stretto.size(), EPOCHS, BATCHES)])
first = 0
if checkpoint.exists():
    saved = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(saved["model"])
    first = saved["epochs"]
optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), lr=1.0), model, "eager-quorum", normalize="ranks")
for epoch in range(first, EPOCHS):
    for batch in range(BATCHES):
        if stretto.rank() == 3 and first == 0 and (epoch, batch) == (2, 5):
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        (-model[0][stretto.rank(), epoch, batch]).backward()
        optimizer.step()
    with optimizer.together():
        if stretto.rank() == 0:
            torch.save({"model": model.state_dict(), "epochs": epoch + 1}, f"{checkpoint}.new")
            os.replace(f"{checkpoint}.new", checkpoint)
optimizer.finish()
