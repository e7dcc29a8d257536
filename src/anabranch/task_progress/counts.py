"""The messages that Python workers and the driver exchange about the progress of Spark tasks. Each message is a line of
JSON."""

from __future__ import annotations

import msgspec

__all__ = [
    "PUBLISHING",
    "READING",
    "Cancel",
    "Count",
    "Greeting",
    "Received",
    "ReportAddress",
    "TaskCounts",
    "TaskReport",
    "Work",
    "of_text",
]

READING, PUBLISHING = "reading", "publishing"
"""Labels for work that belongs to no operator of the job. ``reading`` is for reading a stream through a source that is
written in Python. (Kafka's source isn't.) ``publishing`` is for writing exactly-once outputs to streams."""


class ReportAddress(msgspec.Struct, frozen=True):
    """The address at which the driver listens for reports. The driver ignores senders without the ``token``."""

    host: str
    port: int
    token: str

    @property
    def text(self) -> str:
        """The address as an option of a data source; see :func:`of_text`."""
        return msgspec.json.encode(self).decode()


def of_text(text: str) -> ReportAddress | None:
    """The inverse of :attr:`ReportAddress.text`; None for an empty string."""
    return msgspec.json.decode(text, type=ReportAddress) if text else None


class Greeting(msgspec.Struct, frozen=True):
    """The first line of each connection."""

    token: str


class Cancel(msgspec.Struct, frozen=True):
    """The driver's message that the Spark tasks of a query's ``run`` are no longer needed."""

    run: str


class Work(msgspec.Struct, frozen=True):
    """A message on which a function of the operator ``label`` has been working for ``seconds``. ``source`` is the
    number of the message's source. ``bucket`` is the message's bucket at the lane's factor.
    """

    label: str
    source: int
    partition: int
    offset: int
    bucket: int
    seconds: float


class Count(msgspec.Struct, frozen=True):
    """The finished rows of a bucket, and how many seconds the work on these rows took.

    In reports with the label :data:`PUBLISHING`, ``partition`` is a slot, or -1 if there are no slots. The seconds for
    opening and closing the output are attributed to ``partition`` 0. In reports with the labels :data:`PUBLISHING` and
    :data:`READING`, ``task`` and ``source`` are 0, and ``bucket`` is -1.

    Attributes:
        task: the number of the task at factor 1.
        source: the number of the lane's source from which the rows come; -1 for rows from state.
        bucket: the bucket's number; -1 at factor 1.
        offset: the offset of the record from which the last finished row comes. None if this offset isn't known, or if
            rows don't arrive in the order of their records.
        received: how many rows have arrived; 0 if arriving rows aren't counted by bucket.
    """

    task: int
    source: int
    partition: int
    bucket: int
    rows: int
    seconds: float
    offset: int | None = None
    received: int = 0


class Received(msgspec.Struct, frozen=True):
    """How many rows of a partition have reached a function, and the offset of the record from which the last of these
    rows comes.
    """

    source: int
    partition: int
    rows: int
    offset: int


class TaskReport(msgspec.Struct, frozen=True):
    """What a Spark task has done so far for an operator in a batch. Rows and seconds are totals of the attempt.

    Attributes:
        run: the id of the query's run.
        batch: the batch's number; -1 if unknown.
        stage: the id of the Spark stage.
        label: the operator, or a label such as :data:`READING`.
        partition: the number of the Spark task in its Spark stage.
        attempt: the number of the Spark task's attempt. The newest attempt has the highest number.
        alive: how many seconds have passed since the Spark task began its work for the operator.
        seconds: for how many of these seconds the Spark task has worked for the operator.
        counts: the counts that have changed since the last report. The first report through a connection has all
            counts.
        received: the rows that have arrived at the operator, one item for each source and partition.
        work: the message on which a function has been working longest. None if the function has worked on it for less
            than a second.
        ended: whether the Spark task has finished its work for the operator.
    """

    run: str
    batch: int
    stage: int
    partition: int
    attempt: int
    label: str
    seconds: float = 0.0
    alive: float = 0.0
    counts: tuple[Count, ...] = ()
    received: tuple[Received, ...] = ()
    work: Work | None = None
    ended: bool = False


class TaskCounts(msgspec.Struct, frozen=True):
    """What the driver knows about the work that one attempt of a Spark task has done for an operator.

    Attributes:
        told: the attempt's newest report about the operator.
        counts: all counts of this attempt, even those that the newest report leaves out.
        at: when the report was received, in seconds on the driver's monotonic clock.
        fresh: false if the Spark task has finished its work for the operator, or no longer reports.
    """

    told: TaskReport
    counts: tuple[Count, ...]
    at: float
    fresh: bool
