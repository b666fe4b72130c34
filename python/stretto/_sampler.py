"""stretto.Sampler: the batches of a job's pool, for a DataLoader."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import torch.utils.data

from stretto import _job
from stretto._errors import UsageError
from stretto._optimizer import Optimizer


class Sampler(torch.utils.data.Sampler[list[int]]):
    """The batches of a pool that all ranks of the job draw from: `DataLoader(data, batch_sampler=sampler)`.

    Each sample is in one batch an epoch, in an order drawn anew each epoch, whichever rank is ready first: a slow rank
    draws fewer batches, and where members of the job change (`stretto run --ranks MIN:MAX`) the others draw those of a
    rank that is lost. No epoch ends with a short batch: what is left of one is in the first batch of the next. All
    ranks have the same arguments, and one Sampler, which draws when it is first iterated over; the Optimizer comes
    before.

        sampler = stretto.Sampler(len(data), batch_size=32, epochs=10)
        loader = torch.utils.data.DataLoader(data, batch_sampler=sampler, num_workers=2)
        for epoch in sampler.epochs():
            for x, y in loader:
                …
                optimizer.step()
        optimizer.finish()

    A batch that is drawn counts as used, also where the loop over an epoch is left before, and what is left at its end
    of several that were to be added up. A batch that comes back of a lost rank keeps its epoch's number, and is handed
    out first in the epoch that the others are in by then; in the last one a loop without workers goes on until all is
    applied, and with workers epochs() has the last epoch once more.

    Args:
        samples: in the data set.
        batch_size: samples a batch.
        epochs: passes over the data, of all ranks together.
        seed: of the orders. STRETTO_SEED in the environment is added to it.
        lengths: of each sample: batches are of samples of similar length, in shuffled order. None: of any.

    Raises:
        UsageError: for numbers that do not fit; when it draws, on every rank, where ranks have other arguments.
    """

    def __init__(
        self,
        samples: int,
        batch_size: int = 1,
        *,
        epochs: int = 1,
        seed: int = 0,
        lengths: Sequence[int] | None = None,
    ) -> None:
        if hasattr(samples, "__iter__"):
            raise UsageError(
                "Sampler(samples=) of a data set: expected len(dataset); of one without an index, as an "
                "IterableDataset, there is no Sampler: write it to files once, and read them by index, or whole, with "
                "Sampler(len(shards)): a shard is a sample then"
            )
        for name, value, least in (
            ("samples", samples, 1),
            ("batch_size", batch_size, 1),
            ("epochs", epochs, 1),
            ("seed", seed, 0),
        ):
            if not hasattr(value, "__index__") or operator.index(value) < least:
                raise UsageError(f"Sampler({name}={value!r}): expected a number of at least {least}")
        self._samples, self._batch_size = operator.index(samples), operator.index(batch_size)
        self._num_epochs, self._seed = operator.index(epochs), operator.index(seed)
        self._lengths = [operator.index(length) for length in lengths] if lengths is not None else []
        if lengths is not None and len(self._lengths) != self._samples:
            raise UsageError(
                f"Sampler(lengths=) of {len(self._lengths)} samples: expected {self._samples}, one of each"
            )
        self._optimizer: Optimizer | None = None
        self._next: tuple[int, list[int]] | None = None  # drawn, and of a later pass
        self._epoch: int | None = None  # of the present pass
        self._set_epoch: int | None = None  # of the next one, where somebody has said it
        self._over = False  # no batch comes any more

    @property
    def batches(self) -> int:
        """Batches an epoch, of all ranks together."""
        return -(-self._samples // self._batch_size)

    def __len__(self) -> int:
        """A rank's share of the batches of an epoch, if all were equally fast. Raises TypeError where members of the
        job change."""
        if _job.current().members_change:
            raise TypeError(
                "len() of a Sampler where members of the job change: a rank's share is not known; `batches` is"
            )
        return -(-self.batches // _job.size())

    def epochs(self) -> Iterator[int]:
        """The epochs that this rank has a part in, as numbers: a rank that comes later begins with the job's."""
        first = self._peek()
        start = self._num_epochs if first is None else first[0]
        for epoch in range(start, self._num_epochs):
            self.set_epoch(epoch)
            yield epoch
        while not self._is_over():
            if self._peek() is not None:
                self.set_epoch(self._num_epochs - 1)
                yield self._num_epochs - 1

    def set_epoch(self, epoch: int) -> None:
        """The next pass has the batches up to that epoch; without this, and without epochs(), each pass has those of
        the next."""
        self._set_epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        """A pass: the samples of each batch that this rank draws until the epoch is over."""
        first = self._peek()
        if self._set_epoch is not None:
            self._epoch, self._set_epoch = self._set_epoch, None
        elif self._epoch is None:
            self._epoch = 0 if first is None else first[0]
        else:
            self._epoch += 1
        self._drop()
        epoch = self._epoch
        while True:
            drawn = self._peek()
            if drawn is None:
                if epoch < self._num_epochs - 1 or self._in_hand() > 0 or self._is_over():
                    return
                continue
            if drawn[0] > epoch:
                return
            self._next = None
            self._of_pool()._drawn += 1
            yield drawn[1]

    def _of_pool(self) -> Optimizer:
        """The optimizer whose loop draws; the first time it makes the pool, and this rank has come to the others."""
        if self._optimizer is None:
            optimizer = next((part for part in _job.parts() if isinstance(part, Optimizer)), None)
            if optimizer is None:
                raise UsageError("a Sampler that draws before there is a stretto.Optimizer: expected that before")
            optimizer._begin()
            optimizer._loop.make_pool(
                optimizer._tensors, self._samples, self._batch_size, self._num_epochs, self._seed, self._lengths
            )
            self._optimizer = optimizer
        return self._optimizer

    def _peek(self) -> tuple[int, list[int]] | None:
        """The batch that is next on this rank; None: there is none now."""
        optimizer = self._of_pool()
        if self._next is None and not self._over:
            self._next = optimizer._loop.next_batch(optimizer._tensors)
            self._over = self._next is None and not _job.current().members_change
        return self._next

    def _in_hand(self) -> int:
        """Batches that a pass has got, and no step has handed over."""
        return self._of_pool()._drawn - self._of_pool()._batches

    def _drop(self) -> None:
        """A new pass: what the one before had got, and no step has handed over, is not going to be."""
        if (dropped := self._in_hand()) > 0:
            optimizer = self._of_pool()
            optimizer._batches += dropped
            optimizer._loop.drop_batches(dropped)

    def _is_over(self) -> bool:
        """With no batch left: whether none comes back of a rank that is lost. Waits for the last round."""
        if not self._over:
            self._drop()
            self._over = self._of_pool()._drain()
        return self._over
