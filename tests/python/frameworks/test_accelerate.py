"""accelerate: its own test of gradient accumulation with our optimizer in the place of Torch's, and the example."""

import contextlib
import hashlib
import pathlib
import runpy

from ranks import values

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "python" / "accelerate_loop.py"
OFFLINE = {"HF_HUB_OFFLINE": "1"}
ON_CPU = {"ACCELERATE_USE_CPU": "true"}  # as `accelerate launch --cpu` sets it


def run_test_sync():
    """accelerate.test_utils.scripts.test_sync, whose second AdamW is that of the model in DDP."""
    from accelerate import scheduler
    from accelerate.accelerator import Accelerator
    from accelerate.test_utils.scripts import test_sync

    import stretto

    made = []
    adamw, prepare, step = test_sync.AdamW, Accelerator.prepare, scheduler.AcceleratedScheduler.step

    def wrap_second(**options):
        made.append(adamw(**options))
        if len(made) % 2 == 0:
            made[-1] = stretto.Optimizer(made[-1], None, "sync")
        return made[-1]

    def prepare_and_attach(self, *objects):
        prepared = prepare(self, *objects)
        for optimizer in objects:
            if isinstance(optimizer, stretto.Optimizer):
                stretto.attach(prepared[0], optimizer)
        return prepared

    def step_together(self):
        """The test looks at the rate at once. In the loop it moves with the next round; here after together()."""
        with made[-1].together():
            step(self)

    test_sync.AdamW = wrap_second
    Accelerator.prepare = prepare_and_attach
    scheduler.AcceleratedScheduler.step = step_together
    test_sync.main()
    made[-1].finish()
    return len(made), made[-1].batches_applied


def run_example():
    with contextlib.redirect_stdout(None):
        found = runpy.run_path(str(EXAMPLE))
    weights = b"".join(p.detach().numpy().tobytes() for p in found["model"].parameters())
    optimizer = found["optimizer"]
    return optimizer.batches_applied, optimizer.param_groups[0]["lr"], hashlib.sha256(weights).hexdigest()


def test_test_sync_passes_with_a_wrapped_optimizer():
    # 80 samples in batches of 16 for two ranks are three batches each, so two steps of two batches or one.
    assert values(run_test_sync, ranks=2, timeout=300, env=OFFLINE | ON_CPU, fresh=True) == [(2, 4)] * 2


def test_example_leaves_equal_replicas_and_the_rate_of_all_its_steps():
    first, second = values(run_example, ranks=2, timeout=300, env=OFFLINE, fresh=True)
    assert first == second
    # 96 samples, batches of 4, one step for two, two epochs, two ranks; the rate falls once in 8 steps of each rank.
    assert first[:2] == (24, 0.01 * 0.1)
