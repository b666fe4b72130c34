"""The place of a process that torch.distributed knows as one of several, where no launcher's variables have told it:
DDP's tutorials start ranks by mp.spawn() and init_process_group(rank=…, world_size=…).
"""

from __future__ import annotations

import datetime
import os
import pathlib
import socket
import sys
import uuid

import stretto._core as _core
from stretto._errors import Timeout, UsageError

_BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")  # of a host; containers of one host have the same


def size() -> int:
    """Processes of the default process group; 1 where there is none. Loads no Torch."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return 1
    return int(dist.get_world_size())


def find_place(timeout: float) -> _core.Place | None:
    """That of this process in the default process group, whose ranks meet under a name that rank 0 puts into its
    store; None where torch.distributed knows it alone. Every rank calls this.

    Raises Timeout, which names the ranks that have not called it after so many seconds; UsageError for ranks of
    several hosts, and for a group without a store.
    """
    if size() == 1:
        return None
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

    rank, ranks = dist.get_rank(), dist.get_world_size()
    group_store = _get_default_store()
    if group_store is None:
        raise UsageError(
            f"torch.distributed knows this process as rank {rank} of {ranks}, and has no store to meet by: expected "
            f"stretto.init(rank={rank}, ranks={ranks}) before anything else of stretto"
        )
    store = PrefixStore("stretto", group_store)
    if rank == 0:
        store.set("job", uuid.uuid4().hex)
    store.set(f"host of {rank}", f"{_BOOT_ID.read_text().strip()} {socket.gethostname()}")
    hosts = [f"host of {other}" for other in range(ranks)]
    try:
        store.wait(["job", *hosts], datetime.timedelta(seconds=timeout))
    except RuntimeError as error:  # DistStoreError
        missing = [str(other) for other, host in enumerate(hosts) if not store.check([host])]
        raise Timeout(f"rank {', '.join(missing)} of torch.distributed has not come within {timeout:g} s") from error
    here, *others = (store.get(host).decode() for host in hosts)
    for other, there in enumerate(others, 1):
        if there.split()[0] != here.split()[0]:
            raise UsageError(
                f"rank 0 of torch.distributed is on {here.split()[1]}, rank {other} on {there.split()[1]}: expected "
                "all ranks on one host, in whose memory they meet"
            )
    return _core.Place(rank, ranks, f"process group {store.get('job').decode()} of {os.getuid()}")


def check_alone() -> None:
    """For a process that has joined alone: raises UsageError where torch.distributed has made it one of several."""
    if (ranks := size()) > 1:
        raise UsageError(
            f"this process joined stretto alone, and torch.distributed has made it one of {ranks} since: expected "
            "init_process_group() before anything of stretto, or stretto.init(rank=dist.get_rank(), "
            "ranks=dist.get_world_size())"
        )
