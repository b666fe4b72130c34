"""Lightning: BoringModel in automatic and manual optimization, with uneven loaders; and the example."""

import contextlib
import hashlib
import pathlib
import runpy
import warnings

from ranks import values

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "python" / "lightning_fit.py"
EPOCHS = 2


def weights_of(module):
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in module.parameters())).hexdigest()


def fit_all():
    """Weights, batches and learning rate of each fit. One function: to import Lightning takes longest."""
    warnings.simplefilter("ignore")
    import torch
    from lightning.pytorch import Trainer
    from lightning.pytorch.core.optimizer import LightningOptimizer
    from lightning.pytorch.demos.boring_classes import BoringModel

    import stretto
    from stretto.lightning import StrettoCallback

    class Automatic(BoringModel):
        def configure_optimizers(self):
            (sgd,), _ = super().configure_optimizers()
            self.norms, self.met = [], []
            self.wrapped = wrapped = stretto.Optimizer(sgd, self, "eager-quorum")
            wrapped.before_step(lambda: self.norms.append(torch.nn.utils.clip_grad_norm_(self.parameters(), 0.5)))
            return [wrapped], [torch.optim.lr_scheduler.StepLR(wrapped, step_size=1)]

        def on_validation_epoch_end(self):
            if not self.trainer.sanity_checking:
                self.met.append((self.trainer.optimizers[0].batches_applied, weights_of(self)))

    class Raising(Automatic):
        def training_step(self, batch, batch_idx):
            if stretto.rank() == 1 and batch_idx == 1:
                raise LookupError("no such batch")
            return super().training_step(batch, batch_idx)

    class Manual(Automatic):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()  # a LightningOptimizer, which forwards to ours
            optimizer.zero_grad()
            self.manual_backward(self.step(batch))
            optimizer.step()
            if batch_idx == 0:
                with optimizer.together():
                    self.applied = (optimizer.batches_applied, str(optimizer.report()) == str(self.wrapped.report()))

        def on_train_epoch_end(self):
            self.lr_schedulers().step()

    def fit(kind):
        torch.manual_seed(stretto.rank())
        model = kind()
        trainer = Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=EPOCHS,
            limit_train_batches=6 - 2 * stretto.rank(),
            limit_val_batches=2,
            callbacks=[StrettoCallback()],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(model)
        return model, trainer

    found = []
    for kind in (Automatic, Manual):
        model, trainer = fit(kind)
        optimizer = trainer.optimizers[0]
        applied, rate = optimizer.batches_applied, optimizer.param_groups[0]["lr"]
        found.append((applied, rate, len(model.norms) > 0, model.met, weights_of(model)))
        if kind is Manual:
            assert model.applied == (6 + 4 + 2, True), model.applied
    ours = stretto.Optimizer(torch.optim.SGD(torch.nn.Linear(1, 1).parameters()))
    LightningOptimizer(ours).finish()
    assert ours not in stretto._job.parts()
    with contextlib.redirect_stdout(None):
        example = runpy.run_path(str(EXAMPLE))
    optimizer = example["trainer"].optimizers[0]
    found.append((optimizer.batches_applied, float(example["trainer"].callback_metrics["accuracy"])))
    replica = weights_of(example["trainer"].lightning_module)
    try:
        fit(Raising)
    except Exception as error:
        return (found, replica), (type(error).__name__, str(error))


def test_boring_model_and_example_leave_equal_replicas_and_an_exception_is_heard():
    (first, heard), (second, raised) = values(fit_all, ranks=2, timeout=300)
    assert raised == ("LookupError", "no such batch")
    assert heard == ("Aborted", "rank 1 stopped the job: LookupError: no such batch")
    assert first == second
    found = first[0]
    for applied, rate, clipped, met, _ in found[:2]:
        assert (applied, rate, clipped) == (EPOCHS * (6 + 4), 0.1 * 0.1 * 0.1, True)
        assert [batches for batches, _ in met] == [6 + 4, EPOCHS * (6 + 4)]  # ranks validate together
    assert found[2][0] == 2 * 2 * 64 // 2 // 4


def with_made_up_package():
    """What stretto.lightning has of a package pytorch_lightning, where there is none of the name lightning."""
    import enum
    import sys
    import types

    import torch

    import stretto

    package, states = types.ModuleType("pytorch_lightning"), types.ModuleType("pytorch_lightning.trainer.states")
    package.Callback = type("Callback", (), {})
    states.TrainerFn = enum.Enum("TrainerFn", ["FITTING", "VALIDATING"])
    sys.modules.update({
        "pytorch_lightning": package, "pytorch_lightning.trainer": types.ModuleType("pytorch_lightning.trainer"),
        "pytorch_lightning.trainer.states": states, "lightning": None,
    })  # fmt: skip
    from stretto.lightning import StrettoCallback

    model = torch.nn.Linear(3, 2)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model, "eager-solo")
    state = types.SimpleNamespace(fn=states.TrainerFn.FITTING)
    trainer = types.SimpleNamespace(optimizers=[optimizer], state=state, sanity_checking=False)
    callback = StrettoCallback()
    for _ in range(3 + stretto.rank()):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
    callback.on_validation_start(trainer, None)
    met = optimizer.batches_applied
    callback.on_validation_end(trainer, None)
    callback.on_train_end(trainer, None)
    return isinstance(callback, package.Callback), met, optimizer not in stretto._job.parts()


def test_the_package_pytorch_lightning():
    assert values(with_made_up_package, ranks=2) == [(True, 7, True)] * 2
