"""What can go wrong, each error with the exit code its reader gets. A message says what, why and what to do next."""

from __future__ import annotations

__all__ = [
    "AnabranchError",
    "ConfigError",
    "ConflictError",
    "DamagedError",
    "FencedError",
    "GraphError",
    "JobFailedError",
    "LogError",
    "NotFoundError",
    "NotLeadingError",
    "OperatorError",
    "OutOfTimeError",
    "StalledError",
    "StateError",
    "StoreUnavailableError",
    "UnreachableError",
    "UnsupportedFormatError",
    "UnsupportedSparkError",
    "UsageError",
]


class AnabranchError(Exception):
    """anabranch could not go on.

    Args:
        what: what happened, and where (stream, partition, lane, file).
        cure: what to do next; printed on a line of its own.
    """

    exit_code = 1

    def __init__(self, what: str, cure: str = "") -> None:
        super().__init__(what, cure)
        self.what = what
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.what}\n  {self.cure}" if self.cure else self.what


class UsageError(AnabranchError):
    """A command, an option or a job file can't be understood."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting has a value that isn't allowed, or a name nobody knows."""


class GraphError(UsageError):
    """The job's graph can't be run as it is written; names the operator and the cure."""


class UnsupportedSparkError(UsageError):
    """This Spark lacks something that no public interface gives, and that there is no other way to do."""


class JobFailedError(AnabranchError):
    """A lane failed, and with it the job; the message is what the lane said."""


class NotFoundError(AnabranchError):
    """A job, stream, lane or file that was named doesn't exist."""

    exit_code = 3


class UnreachableError(NotFoundError):
    """Nothing listens where a coordinator should."""


class ConflictError(AnabranchError):
    """Somebody else holds it, or it exists already in another form."""

    exit_code = 4


class NotLeadingError(AnabranchError):
    """Another coordinator leads, or none does: this one answers, and changes nothing."""


class StoreUnavailableError(AnabranchError):
    """The store's database is away, or held up, now: the same call may work later.

    Whether a write that was under way has been stored isn't known.
    """


class FencedError(ConflictError):
    """A newer process has taken this one's lane: it must stop and write nothing more."""


class LogError(AnabranchError):
    """A stream's files are missing, cut short or not what their manifest says."""


class StalledError(AnabranchError):
    """A lane has records to read, and hasn't moved for too long."""


class StateError(AnabranchError):
    """A lane's folder, the store and the streams don't agree; going on could lose or repeat records."""


class DamagedError(StateError):
    """A file that a lane can't go on without is missing, or can't be read."""


class OperatorError(AnabranchError):
    """A function or expression of the job failed on a row; names the operator."""


class UnsupportedFormatError(AnabranchError):
    """Written by a version of anabranch that this one doesn't understand; nothing was changed."""


class TooLongError(AnabranchError):
    """A batch took longer than a transaction may. With fewer rows it can be run again."""


class OutOfTimeError(AnabranchError):
    """It didn't end within the time that was given."""

    exit_code = 5
