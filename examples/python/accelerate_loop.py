"""A loop of accelerate: `torchrun --nproc-per-node 2 accelerate_loop.py`. `prepare()` puts the model into DDP."""

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.nn.parallel import DistributedDataParallel

import stretto

torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(96, 10))
accelerator = Accelerator(
    cpu=not torch.cuda.is_available(),  # otherwise each process takes itself for the only one where there is no GPU
    gradient_accumulation_steps=2,
    dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),  # ranks shuffle alike, and ask nobody
)
model = torch.nn.Linear(10, 2).to(accelerator.device)
adam = torch.optim.AdamW(model.parameters(), lr=0.01)
optimizer = stretto.Optimizer(adam, model, "eager-quorum")
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=8)
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
wrapped, prepared, loader = accelerator.prepare(model, optimizer, loader)
if isinstance(wrapped, DistributedDataParallel):  # not where this process is alone
    stretto.attach(wrapped, optimizer)
optimizer.before_step(lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))

for epoch in range(2):
    total = torch.zeros(1, device=accelerator.device)
    for (x,) in loader:
        with accelerator.accumulate(wrapped):
            loss = torch.nn.functional.cross_entropy(wrapped(x), (x.sum(1) > 0).long())
            accelerator.backward(loss)
            total += loss.detach()
            prepared.step()
            if accelerator.sync_gradients:
                scheduler.step()
            prepared.zero_grad()
    with optimizer.together():  # gather() waits for all ranks
        losses = torch.as_tensor(accelerator.gather(total / len(loader)))
        accelerator.print(f"epoch {epoch}: loss {losses.mean():.3f}")
optimizer.finish()
accelerator.end_training()
print(f"rank {stretto.rank()} of {stretto.size()}: {optimizer.batches_applied} steps")
