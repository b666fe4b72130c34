"""What a round has brought, as Optimizer.on_round() tells it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Round:
    """A round that was applied. The same on every rank."""

    number: int
    """From 0 on."""
    policy: str
    """What it waited for before it started: "full", "quorum 2", …"""
    batches: int
    """In the sum of gradients, or behind the models that were averaged."""
    samples: int
    """In these batches, as step(samples=…) says."""
    contributors: int
    """Ranks that brought something."""
    arrived: int
    """Ranks that were there when it started."""
    staleness: int
    """Of the oldest batch: by how many rounds its weights were behind."""
