"""A producer that holds a transactional id, and can never write again once another producer initializes this id."""

from __future__ import annotations

import functools
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError, ConfigError
from anabranch.event_time import durations
from anabranch.systems.kafka import timestamps
from anabranch.systems.kafka.bounded_calls import BoundedCalls
from anabranch.systems.kafka.clients import librdkafka, shown
from anabranch.systems.kafka.markers import Marker, Markers
from anabranch.systems.kafka.relogin import Relogin
from anabranch.systems.kafka.topics import LARGEST

__all__ = ["PATIENCE", "TAKEN_OVER", "Holder", "LostRecord", "passes"]

PATIENCE = 60.0
"""The time limit in seconds for initializing an id, for reading a slot's marker when the slot is opened for a batch,
and for fencing a slot."""

TAKEN_OVER = {
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.INVALID_TXN_STATE,
    KafkaError.UNKNOWN_PRODUCER_ID,
}
"""The errors of a producer whose transaction was ended by a newer producer, or by the broker after a timeout."""

_TUNED = {
    "compression.type": "lz4",
    "linger.ms": 100,  # a commit sends the remaining records without waiting
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 131_072,
}
_POLL_EVERY = 5_000  # rows
_BRIEFLY = 10.0  # seconds for an abort, which only shortens the wait of readers
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


@dataclass(frozen=True)
class LostRecord:
    """A record that the producer or the brokers didn't accept.

    Attributes:
        size: the size in bytes of the record's key, value and headers, without the overhead of sending them. If the
            brokers refused the record, its headers don't count, because the client doesn't return them.
        never_sent: whether the producer itself refused the record.
    """

    error: KafkaError
    topic: str
    key: bytes | None
    size: int
    never_sent: bool = False


class Holder:
    """Holds a transactional id until another producer initializes this id. Initializing an id also aborts the open
    transaction of its earlier holder. Not thread-safe.

    Attributes:
        instance: a unique id of this producer, for the markers that it writes.
        seen: the expected ``instance`` of the slot's marker. If the marker has a different ``instance``, another
            producer has written to the slot. After the id is initialized, the caller sets ``seen`` from the marker.
            After a commit, ``seen`` is this producer's ``instance``.
        begun: when the open transaction began, on the monotonic clock; None if no transaction is open.
        lost: the transaction's records that the producer or the brokers refused.
        message_limit: the producer's size limit for a record, in bytes.

    Args:
        batch_size: the size in bytes up to which the topics take batches of records. The producer sends records in
            batches of at most this size, and of at most ``LARGEST`` bytes, unless the settings have another
            ``batch.size``. A larger record is sent by itself.

    Raises:
        ConfigError: the client refuses the settings, or the brokers refuse ``transaction_timeout``.
        AnabranchError: the id can't be initialized.
    """

    def __init__(self, settings: KafkaSettings, transactional_id: str, batch_size: int = LARGEST) -> None:
        self.instance = uuid.uuid4().hex
        self.seen = ""
        self.begun: float | None = None
        self.lost: list[LostRecord] = []
        self._ending = False
        self._troubles: deque[KafkaError] = deque(maxlen=1)
        properties = {
            **_TUNED,
            "batch.size": max(1, min(LARGEST, batch_size)),
            **librdkafka(settings),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": durations.parse(settings.transaction_timeout),
            "delivery.report.only.error": True,
            "on_delivery": functools.partial(_note, self.lost),
            "error_cb": self._troubles.append,
        }
        self.message_limit = int(properties.get("message.max.bytes", LARGEST))
        try:
            self._producer = Producer(properties)
            self._relogin = Relogin(settings, self._producer, properties)
            for _ in range(2):  # opens all connections: otherwise the next call often sleeps for half a second
                self._producer.list_topics("__transaction_state", PATIENCE)
            _retried(self._producer.init_transactions, time.monotonic() + PATIENCE)
        except KafkaException as error:
            raise _unopened([*self._troubles, error.args[0]], settings, transactional_id) from error

    @property
    def elapsed(self) -> float:
        """Seconds since the transaction began; 0 if none is open."""
        return 0.0 if self.begun is None else time.monotonic() - self.begun

    def begin(self) -> None:
        """Begin a transaction, if none is open."""
        if self.begun is None:
            self.lost.clear()
            self._producer.begin_transaction()
            self.begun = time.monotonic()

    def produce(
        self, topic: str, records: pa.RecordBatch, partitions: npt.NDArray[Any], check: Callable[[], None]
    ) -> None:
        """Queue ``records``, which have the columns of ``RECORD_SCHEMA``. ``partitions`` contains each record's
        partition. If the producer refuses a record, for example because the record is too large, the record is added to
        ``lost``, and KafkaException is raised. ``check`` is called from time to time. To stop writing, ``check`` raises
        an error.
        """
        produce, poll = self._producer.produce, self._producer.poll
        rows = _rows(records, partitions)
        for start in range(0, len(rows), _POLL_EVERY):
            for row in rows[start : start + _POLL_EVERY]:
                while True:
                    try:
                        produce(topic, *row)
                    except BufferError:
                        with _unmasked():
                            poll(0.1)
                        check()
                        continue
                    except KafkaException as error:
                        value, key, headers = row[0], row[1], row[6] if len(row) > 6 else None
                        size = _size(key, value, headers)
                        self.lost.append(LostRecord(error.args[0], topic, key, size, never_sent=True))
                        raise
                    break
            with _unmasked():
                poll(0)
            check()

    def flush(self, check: Callable[[], None]) -> None:
        """Wait until the brokers have received all records, or until ``check`` raises an error."""
        with _unmasked():
            while self._producer.flush(0.5):
                check()
        check()

    def mark(self, reader: Markers, slot: int, marker: Marker, deadline: float) -> None:
        """Add a marker to the transaction. Readers of the slot's marker wait until the transaction ends.
        ``deadline`` is on the monotonic clock.
        """
        offsets, group = [reader.place(slot, marker)], reader.group_metadata()
        send = self._producer.send_offsets_to_transaction
        _retried(lambda left: _calls.make(lambda: send(offsets, group, left), left), deadline)

    def commit(self, deadline: float) -> None:
        """Commit the transaction before ``deadline``, which is on the monotonic clock. After the commit, the outcome is
        decided, but readers see the records only some milliseconds later. A process that initializes the id or reads
        the marker waits until readers see the records.
        """
        try:
            _retried(self._producer.commit_transaction, deadline)
        except KafkaException as error:
            self._ending = not error.args[0].txn_requires_abort()
            raise
        self.begun = None
        self.seen = self.instance

    def abort(self) -> None:
        """Abort the transaction, if one is open. Do nothing if a failed commit may still take effect. In this case, the
        outcome is unknown until the id is initialized again."""
        if self.begun is not None and not self._ending:
            _retried(self._producer.abort_transaction, time.monotonic() + _BRIEFLY)
            self.begun = None

    def drop(self) -> None:
        """Discard the producer. An open transaction stays open until the id is initialized again, or until it times
        out."""
        del self._producer, self._relogin


def passes(error: KafkaError) -> bool:
    """Whether initializing the id again can help after this error."""
    return error.retriable() or error.code() in TAKEN_OVER


def _rows(records: pa.RecordBatch, partitions: npt.NDArray[Any]) -> list[tuple[Any, ...]]:
    """For each record, the positional arguments of ``Producer.produce`` after the topic. A call with keyword
    arguments would take 1.6 times as long. ``produce_batch`` is no faster, and accepts neither timestamps nor headers.
    """
    values, keys = (records.column(name).to_numpy(zero_copy_only=False).tolist() for name in ("value", "key"))
    stamps = timestamps.milliseconds(records.column("timestamp")).tolist()
    where = partitions.tolist()
    nones = [None] * len(values)
    headers = records.column("headers")
    if headers.null_count == len(headers):
        return list(zip(values, keys, where, nones, nones, stamps, strict=True))
    packed = [None if row is None else [(h["key"], h["value"]) for h in row] for row in headers.to_pylist()]
    return list(zip(values, keys, where, nones, nones, stamps, packed, strict=True))


def _note(lost: list[LostRecord], error: KafkaError | None, message: Message) -> None:
    # confluent-kafka may call this while an exception is already set. A loop or a generator in here would take that
    # exception for its own, and Python would be left in a state in which no exception can be handled.
    if error is not None and error.code() not in _PURGED:
        key, value = message.key(), message.value()
        lost.append(LostRecord(error, message.topic() or "", key, len(key or b"") + len(value or b"")))


def _size(key: Any, value: Any, headers: Any) -> int:
    parts = [key, value, *(part for name, text in headers or () for part in (name.encode(), text))]
    return sum(len(part) for part in parts if part is not None)


@contextmanager
def _unmasked() -> Iterator[None]:
    """Inside ``with``, a SystemError whose cause is a KafkaException is replaced by the KafkaException. If a fatal
    error and a delivery report occur in one call, confluent-kafka raises such a SystemError.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise


_calls = BoundedCalls()


def _retried(call: Callable[[float], object], deadline: float) -> None:
    """Make a call, and repeat it after transient errors until the deadline. The call's argument is the remaining time
    in seconds."""
    while True:
        try:
            with _unmasked():
                call(max(deadline - time.monotonic(), 0.1))
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _unopened(errors: list[KafkaError], settings: KafkaSettings, transactional_id: str) -> AnabranchError:
    *_, error = errors
    if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return ConfigError(
            f'[systems.kafka] transaction_timeout = "{settings.transaction_timeout}" is longer than the brokers allow',
            "lower it, or raise transaction.max.timeout.ms of the brokers (15 minutes by default)",
        )
    if error.code() == KafkaError._INVALID_ARG:
        return ConfigError(
            f"a producer can't be made from [systems.kafka]: {error.str()}", "fix transaction_timeout or client"
        )
    return AnabranchError(
        f"the transactional id {transactional_id} can't be opened at {shown(settings)}: "
        + "; ".join(dict.fromkeys(each.str() for each in errors)),
        "check that the brokers answer, and let this user write with transactional ids that begin with "
        f"{settings.prefix}.",
    )
