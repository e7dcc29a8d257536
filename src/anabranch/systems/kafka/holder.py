"""A producer that holds a transactional id. Initializing the id permanently stops every other producer that holds
it."""

from __future__ import annotations

import functools
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError, ConfigError
from anabranch.event_time import durations
from anabranch.systems.kafka.clients import librdkafka, shown
from anabranch.systems.kafka.markers import Marker, Markers

__all__ = ["PATIENCE", "TAKEN_OVER", "Holder", "LostRecord", "passes"]

PATIENCE = 60.0
"""The seconds that initializing an id, reading a marker, and a fence may take."""

TAKEN_OVER = {
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.INVALID_TXN_STATE,
    KafkaError.UNKNOWN_PRODUCER_ID,
}
"""The errors of a producer whose transaction was ended by a newer producer, or by the broker after its timeout."""

_TUNED = {
    "compression.type": "lz4",
    "linger.ms": 100,  # a commit sends what is left at once
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 131_072,
}
_MESSAGE_LIMIT = 1_000_000  # librdkafka's default of message.max.bytes
_POLL_EVERY = 5_000  # rows
_BRIEFLY = 10.0  # seconds for what only spares others a wait
_LONGEST = 20.0  # seconds that a broker may take to answer within a transaction
_stuck: list[Producer] = []
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


@dataclass(frozen=True)
class LostRecord:
    """A record that the brokers didn't accept."""

    error: KafkaError
    topic: str
    key: bytes | None
    size: int


class Holder:
    """Holds an id until another process initializes it. Initializing the id also ends its open transactions. For one
    thread at a time.

    ``seen``: the instance in the slot's marker when this producer initialized the id, or its own once it has committed
    one. If the marker has a different instance, another producer has written to the slot since. ``begun``: when the
    transaction began, None if there is none. ``lost``: records of the transaction that the brokers refused.
    """

    def __init__(self, settings: KafkaSettings, transactional_id: str) -> None:
        self.instance = uuid.uuid4().hex
        self.seen = ""
        self.begun: float | None = None
        self.lost: list[LostRecord] = []
        self._ending = False
        self._troubles: deque[KafkaError] = deque(maxlen=1)
        properties = {
            **_TUNED,
            **librdkafka(settings),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": durations.parse(settings.transaction_timeout),
            "delivery.report.only.error": True,
            "on_delivery": functools.partial(_note, self.lost),
            "error_cb": self._troubles.append,
        }
        self.message_limit = int(properties.get("message.max.bytes", _MESSAGE_LIMIT))
        try:
            self._producer = Producer(properties)
            for _ in range(2):  # so that all connections are up: else the next call often sleeps for half a second
                self._producer.list_topics("__transaction_state", PATIENCE)
            _retried(self._producer.init_transactions, time.monotonic() + PATIENCE)
        except KafkaException as error:
            raise _unopened([*self._troubles, error.args[0]], settings, transactional_id) from error

    @property
    def elapsed(self) -> float:
        """Seconds since the transaction began."""
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
        """Queue records, each for the partition at the same index; ``check`` is called from time to time, and may
        raise.

        Records that raise MSG_SIZE_TOO_LARGE are added to ``lost``.
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
                        value, key = row[:2]
                        self.lost.append(LostRecord(error.args[0], topic, key, len(value or b"") + len(key or b"")))
                        raise
                    break
            with _unmasked():
                poll(0)
            check()

    def flush(self, check: Callable[[], None]) -> None:
        """Wait until the brokers have all records, or until ``check`` raises."""
        with _unmasked():
            while self._producer.flush(0.5):
                check()
        check()

    def mark(self, reader: Markers, slot: int, marker: Marker, deadline: float) -> None:
        """Put a marker into the transaction. From then until its end, readers of the slot's marker wait."""
        offsets, group = [reader.place(slot, marker)], reader.group_metadata()
        send, producer = self._producer.send_offsets_to_transaction, self._producer
        _retried(lambda left: _bounded(lambda: send(offsets, group, left), min(left, _LONGEST), producer), deadline)

    def commit(self, deadline: float) -> None:
        """Commit the transaction. Readers see it some milliseconds later. The outcome is decided when this returns, and
        a process that initializes the id or reads the marker waits for the rest.
        """
        try:
            _retried(self._producer.commit_transaction, deadline)
        except KafkaException as error:
            self._ending = not error.args[0].txn_requires_abort()
            raise
        self.begun = None
        self.seen = self.instance

    def abort(self) -> None:
        """Abort the transaction, unless its commit is under way. In that case, only initializing the id again reveals
        the outcome."""
        if self.begun is not None and not self._ending:
            _retried(self._producer.abort_transaction, time.monotonic() + _BRIEFLY)
            self.begun = None

    def drop(self) -> None:
        """Give up the producer as it is. An open transaction stays open until the id is initialized again."""
        del self._producer


def passes(error: KafkaError) -> bool:
    """Whether initializing the id again may help."""
    return error.retriable() or error.code() in TAKEN_OVER


def _rows(records: pa.RecordBatch, partitions: npt.NDArray[Any]) -> list[tuple[Any, ...]]:
    """The positional arguments of ``Producer.produce`` after the topic. (If they are passed by name, that takes 1.6
    times as long.)

    ``produce_batch`` is no faster, and accepts neither timestamps nor headers.
    """
    values, keys = (records.column(name).to_numpy(zero_copy_only=False).tolist() for name in ("value", "key"))
    times = records.column("timestamp").cast(pa.int64()).to_numpy() // 1000
    stamps = np.where(times == 0, 1, times).tolist()  # 0 would be taken for now
    where = partitions.tolist()
    nones = [None] * len(values)
    headers = records.column("headers")
    if headers.null_count == len(headers):
        return list(zip(values, keys, where, nones, nones, stamps, strict=True))
    packed = [None if row is None else [(h["key"], h["value"]) for h in row] for row in headers.to_pylist()]
    return list(zip(values, keys, where, nones, nones, stamps, packed, strict=True))


def _note(lost: list[LostRecord], error: KafkaError | None, message: Message) -> None:
    if error is not None and error.code() not in _PURGED:
        key, value = message.key(), message.value()
        lost.append(LostRecord(error, message.topic() or "", key, len(key or b"") + len(value or b"")))


@contextmanager
def _unmasked() -> Iterator[None]:
    """If a fatal error and a delivery report occur in one call, confluent-kafka raises a SystemError. This raises its
    cause instead.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise


def _bounded(call: Callable[[], object], seconds: float, producer: Producer) -> None:
    """Make a call in a thread, and wait no longer than this for it. (Some calls never end after their broker was
    unreachable.)

    If a call hasn't ended, its producer is never destroyed, because that would wait for the call.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        _stuck.append(producer)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {seconds:.0f} s"))
    if raised:
        raise raised[0]


def _retried(call: Callable[[float], object], deadline: float) -> None:
    """Make a call with the remaining seconds, at least once, and again after errors that pass."""
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
