"""The exceptions of stretto. `.rank` is the rank that an error is about, or None where it is about none, or several."""

from __future__ import annotations


class Error(RuntimeError):
    """Anything that goes wrong in stretto."""

    rank: int | None = None


class Left(SystemExit):
    """This rank has left a job whose members change, as it was told to, or has come when the job was over: its process
    ends with status 0, and what is behind the loop does not run."""

    def __init__(self, why: str = "this rank has left the job") -> None:
        super().__init__(0)
        self.why = why

    def __str__(self) -> str:
        return self.why


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
