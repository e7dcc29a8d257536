"""All errors, each with the exit code of a command that it ends. A message says what happened, why, and what to do
next.
"""

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
    """anabranch could not continue. The base class of all errors.

    Args:
        what: what happened, and where (stream, partition, lane or file).
        cure: what to do next; printed on a separate line.

    Attributes:
        exit_code: the exit code of a command that ends with this error.
    """

    exit_code = 1

    def __init__(self, what: str, cure: str = "") -> None:
        super().__init__(what, cure)
        self.what = what
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.what}\n  {self.cure}" if self.cure else self.what


class UsageError(AnabranchError):
    """A command, an option or a job file cannot be understood. Correct it as the message says."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting has an unknown name or a value that is not allowed. For an unknown name, the message suggests a similar
    one."""


class GraphError(UsageError):
    """The job cannot be run as it is written. The message names the operator, its line, and the change to make."""


class UnsupportedSparkError(UsageError):
    """This version of Spark lacks something that anabranch needs. Install the PySpark version that anabranch asks
    for.
    """


class JobFailedError(AnabranchError):
    """A lane failed, and with it the job. The message is the lane's. Fix the cause and run the job again."""


class NotFoundError(AnabranchError):
    """A job, stream, lane or file that was named does not exist."""

    exit_code = 3


class UnreachableError(NotFoundError):
    """No coordinator answers at this address. Start it, or correct ``[coordinator] url``."""


class ConflictError(AnabranchError):
    """The request conflicts with the current state: another process owns the lane or the job, or what was to be created
    already exists in another form."""

    exit_code = 4


class NotLeadingError(AnabranchError):
    """This coordinator does not lead, so it changes nothing. Ask the coordinator that leads; if its address is known,
    the message contains it.
    """


class StoreUnavailableError(AnabranchError):
    """The store's database cannot be reached, or is locked, at the moment. The same call may work later.

    It is not known whether a write that was under way has been stored.
    """


class FencedError(ConflictError):
    """A newer process has taken over this process's lane. This process can't write any more, and must stop."""


class LogError(AnabranchError):
    """A stream's files are missing, truncated, or do not match their manifest. Restore the file that the message
    names."""


class StalledError(AnabranchError):
    """A lane has records to read and has made no progress for ``[job] stall_after``."""


class StateError(AnabranchError):
    """A lane's folder, the store and the streams contradict each other. Continuing could lose or repeat records."""


class DamagedError(StateError):
    """A file that a lane needs is missing or unreadable. ``anabranch check JOB`` lists everything that is wrong."""


class OperatorError(AnabranchError):
    """A function or an expression of the job failed on a row. The message names the operator and the row's origin."""


class UnsupportedFormatError(AnabranchError):
    """A newer version of anabranch wrote a file or a record. Nothing was changed. Run that version."""


class TooLongError(AnabranchError):
    """A batch took longer than a transaction may last. It can be run again with fewer rows."""


class OutOfTimeError(AnabranchError):
    """An operation did not end within the allowed time. It may still be under way."""

    exit_code = 5
