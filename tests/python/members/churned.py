"""A rank of a job whose members come and go, for tests/members/churn.py: churned.py ALGORITHM BATCHES MILLISECONDS.
A step takes so many, and no time once the file LOOP_SLOW_UNTIL of the environment is there.

At the end it says how many batches are applied, and what its weights and its optimizer's state are; where models are
averaged, and each rank has a momentum of its own, its weights.
"""

import hashlib
import os
import pathlib
import sys
import time

import torch

import stretto
from stretto import _job

torch.set_num_threads(1)
torch.manual_seed(1)
batches, pace = int(sys.argv[2]), int(sys.argv[3].removesuffix("ms")) / 1000
over = pathlib.Path(os.environ["LOOP_SLOW_UNTIL"])
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 1))
sgd = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.5)
optimizer = stretto.Optimizer(sgd, model, sys.argv[1])
worlds = []
optimizer.on_members(lambda *members: worlds.append(optimizer.batches_applied))
for [batch] in stretto.Sampler(batches):
    optimizer.zero_grad()
    x = torch.full((4, 8), batch % 7 / 7) + torch.arange(4).reshape(4, 1)
    model(x).square().mean().backward()
    if not over.exists():
        time.sleep(pace)
    optimizer.step()
optimizer.finish()
state = [p.detach() for p in model.parameters()]
if sys.argv[1] != "easgd-grid":
    state += [s["momentum_buffer"] for s in sgd.state.values()]
numbers = hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in state)).hexdigest()
first = worlds[0] if worlds else 0
said = f"member {_job.number()} began after {first}, applied {optimizer.batches_applied}, numbers {numbers}, equal\n"
os.write(1, said.encode())  # at once: ranks share the file
