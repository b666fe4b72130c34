"""transformers' Trainer under two ranks, which puts the model into DDP: the example, and what the callback refuses."""

import contextlib
import hashlib
import pathlib
import runpy
import types
import warnings

from ranks import values

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "python" / "trainer.py"


def train():
    warnings.simplefilter("ignore")
    from stretto import UsageError
    from stretto.transformers import StrettoCallback

    with contextlib.redirect_stdout(None):
        found = runpy.run_path(str(EXAMPLE))
    refused = []
    for clip, average in ((0.0, True), (1.0, False)):
        arguments = types.SimpleNamespace(world_size=2, max_grad_norm=clip, average_tokens_across_devices=average)
        try:
            StrettoCallback(found["trainer"], found["optimizer"]).on_train_begin(arguments, None, None)
        except UsageError as error:
            refused.append(str(error).split(",")[0])
    weights = b"".join(p.detach().numpy().tobytes() for p in found["model"].parameters())
    optimizer = found["optimizer"]
    return {
        "in": type(found["trainer"].model_wrapped).__name__,
        "batches": optimizer.batches_applied,
        "lr": optimizer.param_groups[0]["lr"],
        "losses": [entry["loss"] for entry in found["trainer"].state.log_history if "loss" in entry],
        "weights": hashlib.sha256(weights).hexdigest(),
        "refused": refused,
    }


def test_trainer_leaves_equal_replicas():
    first, second = values(train, ranks=2, timeout=300, env={"HF_HUB_OFFLINE": "1"}, fresh=True)
    assert first["weights"] == second["weights"]
    assert first["losses"] == second["losses"] and len(first["losses"]) == 4  # gathered every 4 of 16 steps
    for rank in (first, second):
        assert rank["in"] == "AttachedDistributedDataParallel"
        assert rank["batches"] == 2 * 64 // 4
        assert rank["lr"] == 1e-3 / (1 + 16)
        assert rank["refused"] == ["average_tokens_across_devices", "max_grad_norm=1.0"]
