"""The smallest program: `torchrun --nproc-per-node 4 five_lines.py`. A single process is a job of one rank."""

import torch

import stretto

torch.manual_seed(stretto.rank())  # other batches on each rank; all begin with the weights of rank 0
model = torch.nn.Linear(10, 2)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = stretto.Optimizer(sgd, model, "eager-quorum")
for _ in range(100):
    x = torch.randn(8, 10)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long()).backward()
    optimizer.step()  # waits for half of the ranks at most, applies the rounds that are complete
optimizer.finish()  # ranks may have different numbers of batches
print(f"rank {stretto.rank()} of {stretto.size()}: {optimizer.batches_applied} batches")
