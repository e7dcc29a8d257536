"""Exactly-once output to Kafka: one transaction for each slot and batch, which also commits the slot's marker."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from anabranch import crash_points
from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError, OutOfTimeError, TooLongError
from anabranch.event_time import durations
from anabranch.systems.kafka import fencing, markers
from anabranch.systems.kafka.fencing import fence
from anabranch.systems.kafka.holder import PATIENCE, TAKEN_OVER, Holder, LostRecord
from anabranch.systems.kafka.kept_clients import KeptClients
from anabranch.systems.kafka.markers import Marker, Markers
from anabranch.systems.kafka.topics import LARGEST

__all__ = ["SlotTransaction", "SlotWriter", "close", "fence"]

_SETTLED = 2.0
"""How many seconds to wait for a marker that can't be read while another producer's transaction is open. After this
time, the id is initialized, which ends that transaction.
"""

_holders: KeptClients[tuple[str, str], Holder] = KeptClients(Holder.drop)
"""For each cluster and transactional id, a producer of this process that no transaction is using."""

_readers: KeptClients[tuple[str, str], Markers] = KeptClients(lambda _: None)
"""For each cluster and group, a reader of the group's markers. If a reader is discarded while it is in use, it ends
when its last user no longer needs it.
"""


@atexit.register
def close() -> None:
    """Discard the producers and marker readers that this process keeps. The next batch opens new ones."""
    _holders.clear()
    _readers.clear()


@dataclass(frozen=True)
class SlotWriter:
    """Writes to the slots of a lane's output group for one incarnation of the lane, which is the process that has the
    lane under ``epoch``. Several threads may use a writer at once, provided that each of them uses different slots.
    """

    settings: KafkaSettings
    job: str
    lane: str
    group: str
    epoch: int

    def open(self, slot: int, batch: int, batch_size: Callable[[], int] = lambda: LARGEST) -> SlotTransaction:
        """Take a slot for a batch, and return a transaction with which to write the slot's part of the batch. From then
        on, the slot's previous owner can't write to it.

        After any error other than FencedError, open the same batch again. Even so, the batch takes effect only once.

        Args:
            batch_size: returns the size in bytes up to which the topics take batches of records. Called only if this
                process has no producer for the slot yet.

        Raises:
            FencedError: a newer process has the lane, or the lane is closed. Stop and write nothing more.
            StateError: the slot has no marker, so it isn't known which batches it has written.
            ConfigError: the brokers refuse ``transaction_timeout``, or the client refuses the settings.
            AnabranchError: the brokers don't answer, they refuse the request, or the marker can't be decoded.
        """
        kept = _holders.take(self._place(slot))
        if kept is not None:
            marker = self._if_still_ours(kept, slot)
            if marker is not None:
                return SlotTransaction(self, kept, slot, batch, marker)
            kept.drop()
        crash_points.reach(crash_points.OPENING, self.lane, batch)
        holder = Holder(self.settings, self._id(slot), batch_size())
        try:
            marker = self.marker(slot)
        except BaseException:
            holder.drop()
            raise
        holder.seen = marker.instance
        return SlotTransaction(self, holder, slot, batch, marker)

    def marker(self, slot: int, timeout: float = PATIENCE) -> Marker:
        """The slot's marker. Raises what :meth:`open` raises, for example FencedError if this incarnation must not
        write, and OutOfTimeError if the marker can't be read within ``timeout`` seconds.
        """
        marker = self.reader().read([slot], timeout)[slot]
        if marker is None:
            raise fencing.unmarked(self.job, self.lane, slot)
        if marker.epoch > self.epoch:
            raise fencing.fenced(self.job, self.lane, slot, self.epoch, f"epoch {marker.epoch} has taken over")
        if marker.closed:
            raise fencing.fenced(self.job, self.lane, slot, self.epoch, "it is closed")
        return marker

    def reader(self) -> Markers:
        """This process's reader of the lane's markers."""
        place = self.settings.bootstrap_servers, markers.group_id(self.settings.prefix, self.job, self.lane, self.group)
        return _readers.shared(place, lambda: Markers(self.settings, self.job, self.lane, self.group))

    def release(self, slot: int, holder: Holder) -> None:
        """Keep a producer for the slot's next batch in this process."""
        _holders.put(self._place(slot), holder)

    def _if_still_ours(self, kept: Holder, slot: int) -> Marker | None:
        """The slot's marker, if ``kept`` was the last producer that wrote to the slot. If another producer has written
        to the slot meanwhile, or may be writing now, the result is None."""
        try:
            marker = self.marker(slot, _SETTLED)
        except OutOfTimeError:
            return None
        except BaseException:
            kept.drop()
            raise
        return marker if marker.instance == kept.seen else None

    def _place(self, slot: int) -> tuple[str, str]:
        return self.settings.bootstrap_servers, self._id(slot)

    def _id(self, slot: int) -> str:
        return markers.transactional_id(self.settings.prefix, self.job, self.lane, self.group, slot)


class SlotTransaction:
    """A slot's part of a batch. After ``commit``, readers see the whole part. Without ``commit``, readers never see any
    of it. Use the transaction in ``with``: if the block doesn't commit the transaction, it is aborted. After any error
    except FencedError, open the batch again. Not thread-safe.

    Attributes:
        done: whether the slot has already committed this batch or a later one. If this is True, nothing is written.
    """

    def __init__(self, writer: SlotWriter, holder: Holder, slot: int, batch: int, marker: Marker) -> None:
        self.done = marker.batch >= batch
        self._writer = writer
        self._holder: Holder | None = holder
        self._slot = slot
        self._batch = batch
        self._marker = marker
        self._rows = 0
        self._timeout = durations.parse(writer.settings.transaction_timeout) / 1000

    def write(self, topic: str, records: pa.RecordBatch, partitions: npt.NDArray[Any]) -> None:
        """Add records with the columns of ``RECORD_SCHEMA``. ``partitions`` contains each record's partition. Records
        are sent in the background, so an error may not be known before ``commit``.

        Raises:
            FencedError: as for :meth:`commit`.
            AnabranchError: the records can't be written. For example, a record is too large, the transaction took too
                long, or another producer took over the slot.
        """
        if self.done or not records.num_rows:
            return
        holder = self._begun()
        try:
            holder.produce(topic, records, partitions, self._check)
        except KafkaException as error:
            raise self._meaning(error.args[0], f"writing to topic {topic}") from error
        self._rows += records.num_rows

    def flush(self) -> None:
        """Wait until the brokers have all records that were written. Readers don't see these records yet. For the
        errors, see :meth:`write`.
        """
        try:
            self._begun().flush(self._check)
        except KafkaException as error:
            raise self._meaning(error.args[0], "committing") from error

    @property
    def total(self) -> int:
        """How many records the slot has ever written, including this batch."""
        return self._marker.rows if self.done else self._marker.rows + self._rows

    def commit(self) -> None:
        """Make all records and the marker visible. If there are no rows, commit only the marker.

        Raises:
            FencedError: a newer process has the lane, or the lane is closed. Stop and write nothing more.
            AnabranchError: the transaction isn't committed, or the outcome is unknown. Open the batch again.
        """
        if self.done:
            self._release()
            return
        holder = self._begun()
        deadline = (holder.begun or 0.0) + self._timeout
        self.flush()
        try:
            crash_points.reach(crash_points.PRODUCED, self._writer.lane, self._batch)
            holder.mark(self._writer.reader(), self._slot, self._next(holder), deadline)
            crash_points.reach(crash_points.MARKED, self._writer.lane, self._batch)
            holder.commit(deadline)
        except KafkaException as error:
            raise self._meaning(error.args[0], "committing") from error
        self._release()
        crash_points.reach(crash_points.TRANSACTED, self._writer.lane, self._batch)

    def abort(self) -> None:
        """Abort the transaction, so that its records never become visible. If the transaction has already ended, do
        nothing. After a failed :meth:`commit`, it may not be known whether the batch is visible. To find out, open the
        batch again."""
        if self._holder is None:
            return
        try:
            self._holder.abort()
        except KafkaException:
            self._drop()
        else:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def _begun(self) -> Holder:
        if self._holder is None:
            raise ValueError("the transaction has ended")
        try:
            self._holder.begin()
        except KafkaException as error:
            raise self._meaning(error.args[0], "beginning a transaction") from error
        return self._holder

    def _next(self, holder: Holder) -> Marker:
        return msgspec.structs.replace(
            self._marker,
            batch=self._batch,
            epoch=self._writer.epoch,
            instance=holder.instance,
            rows=self._marker.rows + self._rows,
        )

    def _check(self) -> None:
        """Raise an error if it is already known that the transaction can't be committed."""
        holder = self._holder
        if holder is not None and holder.lost:
            error = holder.lost[0].error
            raise self._meaning(error, f"writing to topic {holder.lost[0].topic}") from KafkaException(error)

    def _meaning(self, error: KafkaError, doing: str) -> AnabranchError:
        """End the transaction, and return the error to raise for a Kafka error."""
        holder = self._holder
        late = holder is not None and holder.elapsed > self._timeout
        if holder is not None and any(lost.error.code() == KafkaError.MSG_SIZE_TOO_LARGE for lost in holder.lost):
            return self._failed(_too_large(holder))
        if error.code() in TAKEN_OVER or error.fatal():
            self._drop()
            self._writer.marker(self._slot, timeout=_SETTLED)
        if late:
            return self._failed(self._too_long())
        if holder is not None and holder.lost and _may_be_timestamps(holder.lost):
            return self._failed(
                AnabranchError(
                    f"{doing} failed, slot {self._slot} of lane {self._writer.lane}, batch {self._batch}: the topic "
                    f"refuses timestamps or values of these records: {error.str()}",
                    "see that this machine's clock is right; the topic's message.timestamp.after.max.ms and "
                    "message.timestamp.before.max.ms; and the schema, if the brokers check values",
                )
            )
        if error.code() in TAKEN_OVER:
            return AnabranchError(
                f"another worker took over slot {self._slot} of lane {self._writer.lane} in batch {self._batch}",
                "nothing is lost: the task is retried",
            )
        return self._failed(
            AnabranchError(
                f"{doing} failed, slot {self._slot} of lane {self._writer.lane}, batch {self._batch}: {error.str()}",
                "check the topic, the brokers and what this user may do there; the batch can be retried",
            )
        )

    def _too_long(self) -> AnabranchError:
        return TooLongError(
            f"batch {self._batch} of lane {self._writer.lane} took longer in slot {self._slot} than "
            f'transaction_timeout = "{self._writer.settings.transaction_timeout}", after which Kafka aborts it',
            "raise [systems.kafka] transaction_timeout, and run the job again; a lower [job] max_rows_per_batch makes "
            "only later batches smaller",
        )

    def _failed(self, error: AnabranchError) -> AnabranchError:
        """Abort the transaction, so that readers don't wait, and discard the producer."""
        if self._holder is not None:
            with contextlib.suppress(KafkaException):
                self._holder.abort()
            self._drop()
        return error

    def _release(self) -> None:
        holder, self._holder = self._holder, None
        if holder is not None:
            self._writer.release(self._slot, holder)

    def _drop(self) -> None:
        holder, self._holder = self._holder, None
        if holder is not None:
            holder.drop()


def _may_be_timestamps(lost: Sequence[LostRecord]) -> bool:
    """Whether brokers may have refused these records because of wrong timestamps. If one record has a wrong timestamp,
    brokers report INVALID_TIMESTAMP. If several records have wrong timestamps, brokers report INVALID_RECORD. But
    brokers also report INVALID_RECORD for records without a key in a compacted topic. So INVALID_RECORD doesn't count
    if any of these records has no key.
    """
    codes = {each.error.code() for each in lost}
    return KafkaError.INVALID_TIMESTAMP in codes or (
        KafkaError.INVALID_RECORD in codes and all(each.key is not None for each in lost)
    )


def _too_large(holder: Holder) -> AnabranchError:
    """An error that names the record that the producer refused as too large or, if the brokers did so, the largest of
    the refused records. Brokers refuse a batch of records as a whole. So the other refused records may be small enough.
    """
    too_large = (lost for lost in holder.lost if lost.error.code() == KafkaError.MSG_SIZE_TOO_LARGE)
    worst = max(too_large, key=lambda lost: (lost.never_sent, lost.size))
    named = f"a record of {worst.size} bytes for topic {worst.topic}, key {str(worst.key)[:60]},"
    if worst.never_sent:
        return AnabranchError(
            f"{named} is larger than the producer's limit of {holder.message_limit} bytes, its overhead included",
            f'raise [systems.kafka.client] "message.max.bytes", and max.message.bytes of topic {worst.topic} with it',
        )
    return AnabranchError(
        f"{named} is larger than the topic takes, or was sent in a batch of records that is",
        f"raise max.message.bytes of topic {worst.topic} above its size; if it is above it already, let this user "
        "describe the topic's configuration, and leave batch.size out of [systems.kafka.client], so that batches fit",
    )
