"""For Lightning, of the package lightning or pytorch_lightning: a callback that lets ranks meet where Lightning's loop
needs them together, and finishes."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING

from stretto import _job
from stretto._optimizer import Optimizer

# Both packages have these classes, each its own: a Trainer takes callbacks of its package.
_PACKAGES = ("lightning.pytorch", "pytorch_lightning")

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.trainer.states import TrainerFn
else:

    def _package() -> str:
        """The one that the program has imported, or else the first that is installed."""
        for name in _PACKAGES:
            if name in sys.modules:
                return name
        try:
            importlib.import_module(_PACKAGES[0])
        except ModuleNotFoundError:
            return _PACKAGES[1]
        return _PACKAGES[0]

    Callback = importlib.import_module(_package()).Callback
    TrainerFn = importlib.import_module(_package() + ".trainer.states").TrainerFn


class StrettoCallback(Callback):
    """Validation happens in together(), and finish() at the end of training, for each stretto.Optimizer that
    `configure_optimizers()` returns.

    Each rank has a Trainer of its own, of one device, which knows of no other rank:
    `Trainer(devices=1, strategy="auto", accelerator="cpu", callbacks=[StrettoCallback()])`, or `devices=[GPU]` with
    `accelerator="gpu"`. So the loader gets its part of the data by
    `DistributedSampler(dataset, stretto.size(), stretto.rank())`, and only rank 0 gets a logger and checkpoints.
    Lightning clips the gradient of this rank alone, before it is averaged: `before_step()` of the stretto.Optimizer is
    the place for that.
    """

    def __init__(self) -> None:
        self._meeting = contextlib.ExitStack()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuses a job whose members change: the Trainer's epochs and samplers do not follow them."""
        _job.require_fixed("StrettoCallback of Lightning")

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
