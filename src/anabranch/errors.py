"""The errors of anabranch, with their exit codes. Most error messages say what happened, why, and what to do next."""

from __future__ import annotations

__all__ = [
    "AnabranchError",
    "ClockError",
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
    "TooLongError",
    "UnreachableError",
    "UnsupportedFormatError",
    "UnsupportedSparkError",
    "UsageError",
]


class AnabranchError(Exception):
    """The base class of all errors of anabranch.

    Args:
        what: what happened, and where (stream, partition, lane or file).
        cure: what to do next; printed on a line of its own.

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
    """A command, an option, a request or a job file is invalid. The message says how to correct it."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting is wrong: its name is unknown, its value is not allowed, or it needs something that is missing on this
    machine. If a name is unknown, the message gives the most similar known name. If no known name is similar, the
    message lists the known names.
    """


class GraphError(UsageError):
    """The job cannot be run as it is written. The message names the change to make and, in most cases, the operator and
    its line."""


class UnsupportedSparkError(UsageError):
    """This version of Spark lacks something that anabranch needs. Install the PySpark version that anabranch
    requires."""


class JobFailedError(AnabranchError):
    """One of the job's lanes failed, or the job was stopped while a command was waiting for the job. The message gives
    the reason. If a lane failed, fix the cause and run the job again."""


class NotFoundError(AnabranchError):
    """The named job, stream, lane or file does not exist."""

    exit_code = 3


class UnreachableError(AnabranchError):
    """No coordinator answers at this address, or the connection was lost. Start the coordinator, correct
    ``[coordinator] url``, or try again.

    This is not a NotFoundError: without an answer from a coordinator, nobody can tell whether a job exists. Also raised
    if the Maven repository for jars does not answer.
    """

    exit_code = 3


class ConflictError(AnabranchError):
    """The request conflicts with the current state. For example, another process owns the lane or job, or a stream of
    this name exists with another partition count."""

    exit_code = 4


class NotLeadingError(AnabranchError):
    """This coordinator does not lead, or does not serve the job at the moment, so it changes nothing. Ask the
    coordinator that leads, or ask again later. If the leader's address is known, the message contains it.
    """


class StoreUnavailableError(AnabranchError):
    """The store's database cannot be reached, does not answer in time, or has no disk space left. Also raised if this
    process has used the database before, but the database is now locked, cannot be written to, or refuses a login.
    The same call can succeed later.

    If the call was a write, it is not known whether the write has been stored.
    """


class FencedError(ConflictError):
    """This process has lost a lane, or its own seat: another process has the lane, the lane is closed, or the seat was
    taken away. This process can no longer write for the lane or the seat, and must stop.
    """


class LogError(AnabranchError):
    """Records of a stream do not exist any more, or files of a stream or a table are missing, truncated or damaged, do
    not match their manifest, or cannot be written or deleted. If the message names a missing or damaged file, restore
    the file."""


class StalledError(AnabranchError):
    """A lane that has records to read has made no progress for ``[job] stall_after``."""


class StateError(AnabranchError):
    """A lane's folder, the store and the streams contradict each other. Continuing could lose or repeat records."""


class DamagedError(StateError):
    """A file that a lane needs, or that a backup must contain, is missing, damaged or changed. ``anabranch check JOB``
    lists everything that is wrong. Also raised if a fetched jar doesn't have the expected checksum.
    """


class OperatorError(AnabranchError):
    """A function or an expression of the job failed, or a row is not allowed. Also raised if an operator cannot read
    its table, or if a Python worker cannot import the job's code. In most cases, the message names the operator and the
    rows' origin.
    """


class UnsupportedFormatError(AnabranchError):
    """A file, a record or the store has a format that this version of anabranch does not know, in most cases because a
    newer version wrote it. Nothing was changed; run the newer version."""


class TooLongError(AnabranchError):
    """A batch took longer than Kafka allows a transaction to last. The batch can be run again with fewer rows."""


class ClockError(AnabranchError):
    """A machine's clock was set back, so the records of a planned batch would fall into windows of processing time that
    are closed already. The lane restarts on its own, and gives the batch a later time."""


class OutOfTimeError(AnabranchError):
    """An operation did not end within the allowed time. The operation can still be under way."""

    exit_code = 5
