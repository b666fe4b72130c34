"""The place of a process that torch.distributed knows as one of several, whoever has started it: DDP's tutorials start
ranks by mp.spawn() and init_process_group(rank=…, world_size=…), Ray has a group before it calls the training loop. And
whether a launcher's ranks are on one host.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import pathlib
import socket
import sys
import uuid

import stretto._core as _core
from stretto._errors import Timeout, UsageError

_BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")  # of a machine; its containers have the same


def size() -> int:
    """Processes of the default process group; 1 where there is none. Loads no Torch."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return 1
    return int(dist.get_world_size())


def warn_of_groups() -> None:
    """For a process of a job whose members change: says that torch.distributed's group, where there is one, does not
    follow."""
    if (ranks := size()) > 1:
        logging.getLogger("stretto").warning(
            "torch.distributed has a process group of %d, which does not change with the members of this job: its "
            "collectives hang where one is lost",
            ranks,
        )


def find_place(timeout: float) -> _core.Place | None:
    """That of this process in the default process group, whose ranks meet under a name that rank 0 puts into its
    store, or, on several hosts, at the address that it puts there; None where torch.distributed knows it alone, or its
    group has no store. Every rank calls this. Raises Timeout, which names the ranks that have not called it after so
    many seconds.
    """
    if size() == 1:
        return None
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

    rank, ranks = dist.get_rank(), dist.get_world_size()
    group_store = _get_default_store()
    if group_store is None:  # of MPI's
        return None
    store = PrefixStore("stretto", group_store)
    if rank == 0:
        store.set("job", uuid.uuid4().hex)
    network = os.stat("/proc/self/ns/net")  # ranks of two networks of one machine cannot meet in its memory
    store.set(f"host of {rank}", f"{_BOOT_ID.read_text().strip()} {network.st_dev} {network.st_ino}")
    hosts = [f"host of {other}" for other in range(ranks)]
    try:
        store.wait(["job", *hosts], datetime.timedelta(seconds=timeout))
    except RuntimeError as error:  # DistStoreError
        missing = [str(other) for other, host in enumerate(hosts) if not store.check([host])]
        raise Timeout(f"rank {', '.join(missing)} of torch.distributed has not come within {timeout:g} s") from error
    name = f"process group {store.get('job').decode()} of {os.getuid()}"
    on_one = len({store.get(host) for host in hosts}) == 1
    return _core.Place(rank, ranks, name, None if on_one else store)


def _is_here(address: str) -> bool:
    """Whether it is one of this host's: only there a socket can begin. True for a name that nobody knows."""
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_DGRAM)
    except OSError:
        return True
    for family, kind, protocol, _, place in found:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as here:
            here.bind(place)
            return True
    return False


def check_one_host() -> None:
    """For a rank that only RANK and WORLD_SIZE have told its place, as operators of Kubernetes do: raises UsageError
    where the environment says that other ranks are on other hosts."""
    environment = os.environ
    if "RANK" not in environment or "LOCAL_WORLD_SIZE" in environment:
        return
    address = environment.get("MASTER_ADDR", "")
    why = ""
    for name in ("GROUP_WORLD_SIZE", "PET_NNODES", "NNODES"):
        if environment.get(name, "1") not in ("1", "1:1"):
            why = f"{name}={environment[name]} are several hosts"
    if environment.get("LOCAL_RANK", environment["RANK"]) != environment["RANK"]:
        why = f"RANK={environment['RANK']} with LOCAL_RANK={environment['LOCAL_RANK']} is of a job of several hosts"
    if not why and address and not _is_here(address):
        why = f"MASTER_ADDR={address} is no address of this host"
    if why:
        raise UsageError(
            f"RANK={environment['RANK']} WORLD_SIZE={environment.get('WORLD_SIZE')}, and {why}: expected all ranks on "
            f"one host, in whose memory they meet; LOCAL_WORLD_SIZE={environment.get('WORLD_SIZE')} says that they are"
        )


def hint_at_hosts() -> str:
    """What a rank adds that has waited for the others in vain."""
    if "LOCAL_WORLD_SIZE" in os.environ or "MASTER_ADDR" not in os.environ:
        return ""
    return f"; ranks of other hosts cannot come (MASTER_ADDR={os.environ['MASTER_ADDR']}): expected all on this one"


def check_alone() -> None:
    """For a process that joins alone, or has: raises UsageError where torch.distributed has made it one of several."""
    if (ranks := size()) > 1:
        raise UsageError(
            f"this process joined stretto alone, and torch.distributed has made it one of {ranks}: expected "
            "init_process_group(), with a store, before anything of stretto, or stretto.init(rank=dist.get_rank(), "
            "ranks=dist.get_world_size())"
        )
