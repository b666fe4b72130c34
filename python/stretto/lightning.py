"""For Lightning: a callback that lets ranks meet where Lightning's loop needs them together, and finishes."""

from __future__ import annotations

import contextlib

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn

from stretto import _job
from stretto._optimizer import Optimizer


class StrettoCallback(Callback):
    """Validation happens in together(), and finish() at the end of training, for each stretto.Optimizer that
    `configure_optimizers()` returns.

    Each rank has a Trainer of its own, of one device, which knows of no other rank:
    `Trainer(devices=1, strategy="auto", accelerator="cpu", callbacks=[StrettoCallback()])`. So the loader gets its part
    of the data by `DistributedSampler(dataset, stretto.size(), stretto.rank())`, and only rank 0 gets a logger and
    checkpoints. Lightning clips the gradient of this rank alone, before it is averaged: `before_step()` of the
    stretto.Optimizer is the place for that.
    """

    def __init__(self) -> None:
        self._meeting = contextlib.ExitStack()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """All ranks meet. A Trainer that only tries validation out, or validates without fit(), goes alone."""
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            for optimizer in _optimizers(trainer):
                self._meeting.enter_context(optimizer.together())

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """All ranks go on."""
        self._meeting.close()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """No more batches here."""
        for optimizer in _optimizers(trainer):
            optimizer.finish()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """The job stops, and the other ranks hear why, also where the exception is caught around fit()."""
        self._meeting.__exit__(type(exception), exception, exception.__traceback__)
        for optimizer in _optimizers(trainer):
            if optimizer in _job.parts():  # has neither finished nor stopped
                optimizer._abort(f"{type(exception).__name__}: {exception}")


def _optimizers(trainer: Trainer) -> list[Optimizer]:
    return [optimizer for optimizer in trainer.optimizers if isinstance(optimizer, Optimizer)]
