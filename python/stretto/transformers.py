"""For transformers' Trainer: a callback that attaches, and lets ranks meet where the Trainer needs them together."""

from __future__ import annotations

import contextlib
from typing import Any

from torch.nn.parallel import DistributedDataParallel
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from stretto._ddp import attach
from stretto._errors import UsageError
from stretto._optimizer import Optimizer


class StrettoCallback(TrainerCallback):
    """Attaches the Trainer's DistributedDataParallel to a stretto.Optimizer. Where the Trainer logs, evaluates or
    saves, and between epochs, ranks are in together(): there it gathers and broadcasts. finish() at the end of
    training. The Trainer gets the optimizer by `optimizers=(optimizer, scheduler)`, and the callback by
    `trainer.add_callback(StrettoCallback(trainer, optimizer))`, after all others. Its arguments have to say
    `ddp_find_unused_parameters=False` and `ddp_broadcast_buffers=False`, by which attach() is possible,
    `average_tokens_across_devices=False`, since that waits for all ranks in each step, and `max_grad_norm=0`, which
    clips the gradient of this rank before it is averaged; `optimizer.before_step()` is the place to clip.
    """

    def __init__(self, trainer: Trainer, optimizer: Optimizer) -> None:
        self._trainer = trainer
        self._optimizer = optimizer
        self._meeting = contextlib.ExitStack()

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Attaches. Raises UsageError for arguments that part the ranks, or make them wait in each step."""
        if args.world_size > 1 and args.average_tokens_across_devices:
            raise UsageError(
                "average_tokens_across_devices, for which the Trainer waits for all ranks in each step: expected False"
            )
        if args.world_size > 1 and args.max_grad_norm > 0:
            raise UsageError(
                f"max_grad_norm={args.max_grad_norm}, which clips a rank's gradient before it is averaged: expected 0, "
                "and before_step() of the stretto.Optimizer"
            )
        if isinstance(self._trainer.model_wrapped, DistributedDataParallel):
            attach(self._trainer.model_wrapped, self._optimizer)

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """All ranks go on."""
        self._meeting.close()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """All ranks meet where the Trainer is about to log, evaluate or save."""
        if control.should_log or control.should_evaluate or control.should_save:
            self._meet()

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """All ranks meet until the next epoch's first step."""
        self._meet()

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """No more batches here."""
        self._meeting.close()
        self._optimizer.finish()

    def _meet(self) -> None:
        self._meeting.close()
        self._meeting.enter_context(self._optimizer.together())
