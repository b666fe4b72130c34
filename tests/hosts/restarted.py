"""What told_apart.py trains, with its checkpoints: restarted.py CHECKPOINT. Rank 3 is killed in the third epoch, unless
it has begun with a checkpoint.
"""

import os
import pathlib
import signal
import sys

import torch
from told_apart import BATCHES, EPOCHS, FATAL, Training

import stretto

checkpoint = pathlib.Path(sys.argv[1])
training = Training(torch.load(checkpoint, weights_only=True) if checkpoint.exists() else None)
for epoch in range(training.first, EPOCHS):
    for batch in range(BATCHES):
        if stretto.rank() == 3 and training.first == 0 and (epoch, batch) == FATAL:
            os.kill(os.getpid(), signal.SIGKILL)
        training.step(epoch, batch)
    with training.optimizer.together():
        if stretto.rank() == 0:
            torch.save(training.state(epoch), f"{checkpoint}.new")
            os.replace(f"{checkpoint}.new", checkpoint)
training.optimizer.finish()
