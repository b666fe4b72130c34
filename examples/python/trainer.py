"""transformers' Trainer: `torchrun --nproc-per-node 2 trainer.py`. A Bert of two layers learns made-up sentences."""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import stretto
from stretto.transformers import StrettoCallback

torch.manual_seed(0)
sentences = torch.randint(1, 50, (64, 12))
data = [{"input_ids": words, "labels": int(words[0] > 25)} for words in sentences]
config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        use_cpu=not torch.cuda.is_available(),
        num_train_epochs=2,
        per_device_train_batch_size=4,
        logging_steps=4,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        ddp_find_unused_parameters=False,  # what attach() refuses, since ranks wait for each other in it
        ddp_broadcast_buffers=False,
        average_tokens_across_devices=False,  # waits for all ranks in each step
        max_grad_norm=0,  # would clip before gradients are averaged
    )
    with arguments.device:  # the model is there before the optimizer is wrapped
        model = BertForSequenceClassification(config)
    optimizer = stretto.Optimizer(torch.optim.AdamW(model.parameters(), lr=1e-3), model, "eager-quorum")
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1 + step))
    trainer = Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, scheduler))
    trainer.add_callback(StrettoCallback(trainer, optimizer))
    trainer.train()
print(f"rank {stretto.rank()} of {stretto.size()}: {optimizer.batches_applied} batches")
