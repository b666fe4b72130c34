"""What the binding calls of Python. Knows no Torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

Piece = tuple[int, int, int]  # a tensor's memory: type of an element, address, bytes


class Replica(Protocol):
    """A rank's model and optimizer, as the library has them trained. Each call of a stretto._core.Loop brings this
    object along, and its methods are called while that call lasts; also while another optimizer of the process ends,
    since rounds of all are applied then. What a method raises stops the job, and is raised by the call.

    Gradients lie in sets of buckets, which have numbers; −1 is memory of this rank's own. Their memory is that of
    Loop.set() and Loop.own(), that of the trained parameters Loop.flat(), by Loop.placements.
    """

    # ---- a step ----

    def attach(self, number: int) -> None:
        """The backward passes of the next step add to the gradients of this set, which are zero."""

    def forget(self, number: int) -> None:
        """A set of this number lies elsewhere from now on: its memory may be gone."""

    def detach(self) -> None:
        """The memory of all sets is about to be gone: gradients lie in this rank's own, as they are."""

    def collect(self, number: int) -> bool:
        """The backward passes of a step are over: brings gradients that lie elsewhere to this set, and writes to
        Loop.used() which parameters have one. Returns whether it is known that none is infinite or NaN. On a device the
        copies may be under way."""
        ...

    def arrived(self, bucket: int) -> None:
        """Of a model on a device, after collect(): returns when the gradients of a bucket have come."""

    def take(self, sums: list[int], divisors: list[float], of_all: bool) -> None:
        """Of a model on a device, before step(): the gradients become sums / divisors. `sums`: the address of each
        bucket; 0: nobody has one. `of_all`: no later round is added up before this rank has handed over its gradients
        for it."""

    def step(self, number: int) -> None:
        """The optimizer moves the parameters by the gradients that lie in this set, and leaves those alone that
        Loop.used() says have none."""

    def round(
        self, number: int, policy: str, batches: int, samples: int, contributors: int, arrived: int, staleness: int
    ) -> None:
        """A round has been applied, after Loop.tell_rounds(): what it says of itself, as stretto.Round."""

    def counted(self, counts: Sequence[int], ranks: int) -> None:
        """A round of so many ranks has brought these counts of Loop.count(), by number, of all together."""

    # ---- the optimizer ----

    def options(self) -> tuple[float, int]:
        """Learning rate of the first group, and a hash of all options, which is to be the same on every rank."""
        ...

    def sgd_rule(self) -> tuple[float, float, float] | None:
        """Learning rate, momentum and weight decay, where the optimizer is plain SGD that has one of each."""
        ...

    def state(self) -> bytes:
        """The optimizer's state, for set_state() of other ranks; empty where it has none."""
        ...

    def set_state(self, state: bytes) -> None:
        """Becomes that of rank 0."""

    def state_arrays(self) -> Sequence[Piece]:
        """What of the state is averaged with models. The library may write to it."""
        ...

    def state_content(self) -> Iterable[bytes | Piece]:
        """All of the state, for a checksum: a piece is there until the next is asked for."""
        ...

    # ---- members that change ----

    def members(self, rank: int, ranks: int, joined: list[int], lost: list[int], left: list[int]) -> None:
        """This rank has begun among these members, by the numbers that processes have as long as they live."""

    def describe_state(self) -> str:
        """A line for each thing in shared_state(), the same on every rank."""
        ...

    def shared_state(self) -> bytes:
        """What is the same on every rank, beside weights, buffers and the optimizer's state."""
        ...

    def set_shared_state(self, state: bytes) -> None:
        """Becomes that of a rank which holds all rounds."""

    # ---- where ranks meet ----

    def show_weights(self) -> None:
        """The memory of the trained parameters holds them as they are, until the call of the Loop returns."""

    def others(self) -> Sequence[Piece]:
        """What is broadcast beside trained parameters. The library may write to it, as to all pieces but those of
        state_content()."""
        ...

    def describe_buffers(self) -> str | None:
        """The buffers that may be averaged, a line each; None: none is to be."""
        ...

    def share_buffers(self, of_ranks: Sequence[str]) -> None:
        """What describe_buffers() has returned on each rank: those that all have alike are averaged."""

    def floating_buffers(self) -> Sequence[Piece]:
        """The buffers that are averaged, but for counts()."""
        ...

    def moments(self) -> Sequence[tuple[int, int]]:
        """Which of floating_buffers() are mean and variance of the same samples, by their places there."""
        ...

    def counts(self) -> Sequence[Piece]:
        """Buffers of int64 that count the batches which the moments were taken over."""
        ...

    def tell_ranks(self) -> Sequence[int]:
        """Words of 64 bits for hear_ranks() of all ranks, equally many on each; asked again where they do not come."""
        ...

    def hear_ranks(self, words: Sequence[Sequence[int]]) -> None:
        """What tell_ranks() has returned on each rank."""

    def tell(self, line: str) -> None:
        """A line for who looks on: who is waited for, after so many seconds of silence."""
