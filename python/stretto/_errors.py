"""The exceptions of stretto. `.rank` is the rank that an error is about, or None where it is about none, or several."""

from __future__ import annotations


class Error(RuntimeError):
    """Anything that goes wrong in stretto."""

    rank: int | None = None


class UsageError(Error, ValueError):
    """The caller's mistake: says what was wrong, with the values, and what would be right."""


class RankLost(Error):
    """A rank has died; `.rank` says which."""


class Aborted(Error):
    """Some rank has stopped the job; the text is what it said."""


class Timeout(Error, TimeoutError):
    """A rank did not come in time."""


class Diverged(Error):
    """Replicas, or the options they are moved by, differ between ranks."""
