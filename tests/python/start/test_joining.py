"""How a process finds its place and joins, and what of it is refused. Little of it needs Torch."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import time

import pytest
import stretto
from ranks import Ranks, run, said, values

FIVE_LINES = pathlib.Path(__file__).parents[3] / "examples" / "python" / "five_lines.py"
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT", "STRETTO_JOB")


def place():
    return stretto.rank(), stretto.size()


def join_within(seconds, **arguments):
    """What init() raises."""
    start = time.monotonic()
    try:
        stretto.init(timeout=seconds, **arguments)
    except stretto.Error as error:
        return type(error).__name__, error.rank, str(error), time.monotonic() - start
    return None


def join_twice():
    stretto.init()
    stretto.init(rank=stretto.rank(), ranks=2)
    heard = []
    for arguments in ({"rank": 1 - stretto.rank(), "ranks": 2}, {"rank": 0, "ranks": 3}):
        heard.append(join_within(5, **arguments)[2])
    stretto.shutdown()
    stretto.shutdown()
    for call in (stretto.init, stretto.barrier, stretto.rank):
        with pytest.raises(stretto.UsageError, match="init\\(\\) after shutdown\\(\\): a process is a rank of one job"):
            call()
    return heard


def fork_after_joining():
    stretto.init()
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            stretto.rank()
        except stretto.UsageError as error:
            os.write(send, str(error).encode())
        finally:
            stretto.shutdown()
            os._exit(0)
    os.waitpid(child, 0)
    refusal = os.read(receive, 1000).decode()
    stretto.barrier()  # the job is as it was
    return refusal


def load_by_workers():
    """The batches that forked workers of a DataLoader bring while a rank trains, and what a worker hears."""
    import torch

    model = torch.nn.Linear(1, 1)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), lr=0.01), model)

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            try:
                optimizer.step()
            except stretto.UsageError:
                return torch.tensor([float(index)])
            raise AssertionError("a worker has made a step")

    seen = []
    for batch in torch.utils.data.DataLoader(Numbers(), 2, num_workers=2, multiprocessing_context="fork"):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        seen += batch.flatten().tolist()
    optimizer.finish()
    return seen, optimizer.batches_applied


def run_python(text, environment, **options):
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


def error_of(environment):
    """The last line of what a process says that cannot join."""
    ended = run_python("import stretto; stretto.init(timeout=2)", environment)
    assert ended.returncode == 1, ended
    return ended.stderr.splitlines()[-1]


def test_without_a_launcher_a_process_is_one_rank():
    assert run_python("import stretto; print(stretto.rank(), stretto.size())", {}).stdout == "0 1\n"


@pytest.mark.parametrize(
    "environment, text",
    [
        (
            {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"},
            "stretto._errors.Error: torchrun has started 8 ranks, 4 of them on this host, and keeps no store where",
        ),
        (
            {"WORLD_SIZE": "4"},
            "stretto._errors.UsageError: WORLD_SIZE=4 without RANK: expected both",
        ),
        (
            {"RANK": "4", "WORLD_SIZE": "4"},
            "stretto._errors.UsageError: RANK='4' with WORLD_SIZE=4: expected a rank from 0 to 3",
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "four"},
            "stretto._errors.UsageError: WORLD_SIZE='four', as torchrun sets it: expected a number of ranks, from 1",
        ),
    ],
)
def test_variables_that_are_no_place_are_refused(environment, text):
    assert error_of(environment).startswith(text)


def test_variables_of_srun():
    environment = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0"}

    def of_rank(rank):
        return {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), **dict.fromkeys(LAUNCHERS, "")}

    with Ranks(place, ranks=2, env=environment, env_of_rank=of_rank) as ranks:
        assert [result.value for result in ranks.wait()] == [(0, 2), (1, 2)]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun")
def test_mpirun():
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    ended = subprocess.run(
        ["mpirun", "--oversubscribe", "-n", "2", sys.executable, FIVE_LINES],
        env={**kept, **allowed},
        capture_output=True,
        text=True,
        timeout=300,
    )
    # mpirun passes on what it has read so far: the ends of lines may come later.
    told = sorted(re.findall(r"rank \d of \d: \d+ batches", ended.stdout))
    assert told == [f"rank {rank} of 2: 200 batches" for rank in range(2)], ended


def test_a_rank_that_never_comes_is_named():
    def of_rank(rank):
        return {"RANK": str((0, 1, 3)[rank]), "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}

    with Ranks(join_within, ranks=3, env_of_rank=of_rank, args=(2,)) as ranks:
        for result in ranks.wait():
            kind, rank, text, after = result.value
            assert (kind, rank) == ("Timeout", 2) and "rank 2 has not come within 2 s" in text
            assert after < 20


def test_a_rank_zero_that_never_comes_is_named():
    alone = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    with Ranks(join_within, ranks=1, env_of_rank=lambda _: alone, args=(1,)) as ranks:
        kind, rank, text, _ = ranks.wait()[0].value
    assert (kind, rank) == ("Timeout", 0) and text.startswith("rank 0 has not come within 1 s")


def test_two_processes_of_the_same_rank_are_named():
    def of_rank(rank):
        return {"RANK": str((0, 1, 1)[rank])}

    with Ranks(join_within, ranks=3, env_of_rank=of_rank, args=(20,)) as ranks:
        results = ranks.wait()
    for result in results:
        kind, _, text, _ = result.value
        assert kind == "UsageError" and re.search(r"two processes are rank 1: \d+ and \d+", text), said(results)


def test_different_numbers_of_ranks_are_named():
    def of_rank(rank):
        return {"WORLD_SIZE": str((2, 3)[rank]), "LOCAL_WORLD_SIZE": str((2, 3)[rank])}

    with Ranks(join_within, ranks=2, env_of_rank=of_rank, args=(20,)) as ranks:
        results = ranks.wait()
    for result in results:
        assert "rank 1 has 3 ranks in its job, rank 0 2" in result.value[2], said(results)


def test_joining_and_leaving_twice():
    for rank, heard in enumerate(values(join_twice, ranks=2)):
        already = f"in a process that is rank {rank} of 2: expected one init(), before the first Optimizer"
        assert heard == [f"init(rank={1 - rank}, ranks=2) {already}", f"init(rank=0, ranks=3) {already}"]


def test_half_a_place_is_refused():
    with pytest.raises(stretto.UsageError, match=r"init\(rank=1, ranks=None\): expected both, or neither"):
        stretto.init(rank=1)


@pytest.mark.parametrize("liveness", [0.9, 0, -3, float("nan"), float("inf"), 864001])
def test_a_liveness_that_is_none_is_refused(liveness):
    with pytest.raises(stretto.UsageError, match=rf"init\(liveness={liveness}\): expected seconds, from 1 to 864000"):
        stretto.init(liveness=liveness)


def test_what_moves_no_messages_is_refused():
    with pytest.raises(stretto.UsageError, match=r"between mpi: expected ranks that mpirun of Open MPI"):
        stretto.init(between="mpi")


def test_a_forked_process_is_no_rank():
    for refusal in values(fork_after_joining, ranks=2):
        assert re.match(r"this process was forked from one that had joined a job \(process \d+\): a rank is", refusal)


def test_workers_of_a_data_loader_may_be_forked():
    assert values(load_by_workers, ranks=2) == [([float(n) for n in range(8)], 8)] * 2


def test_the_socket_of_a_killed_job_is_taken_over(tmp_path):
    environment = {"STRETTO_RENDEZVOUS_DIR": str(tmp_path), "STRETTO_JOB": "stale", "MASTER_PORT": "1"}
    of_two = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    with Ranks(join_within, ranks=1, env=environment, env_of_rank=lambda _: of_two, args=(60,)) as ranks:
        end = time.monotonic() + 30
        while not list(tmp_path.iterdir()):
            assert time.monotonic() < end
            time.sleep(0.01)
        ranks.processes[0].kill()
        ranks.wait()
    assert len(list(tmp_path.iterdir())) == 1
    results = run(place, ranks=2, env=environment)
    assert [result.value for result in results] == [(0, 2), (1, 2)], said(results)
    assert list(tmp_path.iterdir()) == []


def test_two_jobs_at_once():
    with Ranks(place, ranks=2) as one, Ranks(place, ranks=3) as other:
        assert [result.value for result in one.wait()] == [(0, 2), (1, 2)]
        assert [result.value for result in other.wait()] == [(0, 3), (1, 3), (2, 3)]
