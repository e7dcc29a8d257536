"""A lane's exactly-once output to Kafka: workers commit a transaction for each slot and batch."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from anabranch.config import KafkaSettings
from anabranch.deadlines import wait_until
from anabranch.errors import OutOfTimeError
from anabranch.event_time import durations
from anabranch.event_time.control import Control
from anabranch.model.lane import Lane
from anabranch.systems.kafka import markers, transactions
from anabranch.systems.kafka.clients import librdkafka
from anabranch.systems.kafka.cluster import Cluster
from anabranch.systems.kafka.topics import LARGEST, Topics
from anabranch.systems.kafka.transactions import SlotTransaction, SlotWriter
from anabranch.systems.output import Numbers, Target, Written

__all__ = ["KafkaOutput", "KafkaPublisher", "fence", "peeked", "published"]

_OVERHEAD = 200
"""The overhead in bytes of a Kafka batch that contains one record, with a margin."""
_KNOWN_FOR = 60.0
_limits: dict[tuple[str, str], tuple[int, float]] = {}
"""For each cluster and topic, the topic's size limit, and when it was looked up."""
_SETTLING, _STEP = 5.0, 0.02


@dataclass(frozen=True)
class KafkaOutput:
    """Writes for one incarnation of a lane; see :class:`SlotWriter`. ``topics`` gives the topic of each stream."""

    writer_of: SlotWriter
    topics: Mapping[str, str]

    def writer(self, task: int, batch: int) -> _Transactions:
        return _Transactions(self, batch)

    def limit(self, stream: str) -> float:
        settings, topic = self.writer_of.settings, self.topics[stream]
        mine = int(librdkafka(settings).get("message.max.bytes", LARGEST))
        return min(_looked_up(settings, [topic])[topic], mine) - _OVERHEAD

    def batch_size(self) -> int:
        """The size in bytes up to which all topics of the lane take batches of records."""
        return min(_looked_up(self.writer_of.settings, self.topics.values()).values())


def _looked_up(settings: KafkaSettings, topics: Iterable[str]) -> dict[str, int]:
    """The size limit of each topic. Limits that this process has looked up in the last ``_KNOWN_FOR`` seconds aren't
    looked up again."""
    places = {topic: (settings.bootstrap_servers, topic) for topic in topics}
    now = time.monotonic()
    unknown = [topic for topic, place in places.items() if now - _limits.get(place, (0, -math.inf))[1] > _KNOWN_FOR]
    if unknown:
        found = Topics(Cluster(settings)).largest(unknown)
        _limits.update({places[topic]: (limit, now) for topic, limit in found.items()})
    return {topic: _limits[place][0] for topic, place in places.items()}


@dataclass
class _Transactions:
    """The transactions of one Spark task: one for each slot for which the task has rows, usually a single slot."""

    output: KafkaOutput
    batch: int
    _open: dict[int, SlotTransaction] = field(default_factory=dict)
    _rows: dict[int, int] = field(default_factory=dict)
    _streams: dict[int, str] = field(default_factory=dict)

    def write(self, target: Target, slot: int, partitions: Numbers, records: pa.RecordBatch) -> None:
        if not records.num_rows:
            return
        if slot not in self._open:
            self._open[slot] = self.output.writer_of.open(slot, self.batch, self.output.batch_size)
            self._streams[slot] = target.stream
        self._open[slot].write(self.output.topics[target.stream], records, partitions)
        self._rows[slot] = self._rows.get(slot, 0) + records.num_rows

    def close(self) -> list[Written]:
        written = []
        for slot, transaction in self._open.items():
            transaction.commit()
            stream, rows = self._streams[slot], self._rows[slot]
            written.append(Written(stream=stream, partition=-1, slot=slot, rows=rows, total=transaction.total))
        return written

    def abort(self) -> None:
        for transaction in self._open.values():
            transaction.abort()


class StreamEnds(Protocol):
    """What a publisher needs from the system."""

    def tell(self, stream: str, control: Mapping[str, Any]) -> None:
        """Write a control record of an intermediate stream, after everything that has been written to the stream so
        far.
        """
        ...

    def ends(self, stream: str) -> Mapping[int, int]: ...

    def high_watermarks(self, stream: str) -> Mapping[int, int]: ...


class KafkaPublisher:
    """The driver's part of a lane's output. Workers commit the records themselves, so the driver only takes the slots,
    writes control records, and can wait until the records are visible.
    """

    slotted = True
    plannable = True

    def __init__(
        self, settings: KafkaSettings, topics: Mapping[str, str], system: StreamEnds, lane: Lane, epoch: int
    ) -> None:
        self.output = KafkaOutput(SlotWriter(settings, lane.job, lane.id, lane.group, epoch), topics)
        self._settings = settings
        self._system = system
        self._lane = lane
        self._epoch = epoch
        self._totals: dict[int, int] = {}

    @property
    def batch_seconds(self) -> float:
        return durations.parse(self._settings.transaction_timeout) / 1000

    def take(self, new: bool) -> None:
        lane, settings = self._lane, self._settings
        markers.prepare(settings, lane.job, len(lane.slots))
        slots = range(len(lane.slots))
        held = transactions.fence(settings, lane.job, lane.id, lane.group, slots, self._epoch, new=new, opens=True)
        self._totals = {slot: marker.rows for slot, marker in held.items()}

    def publish(self, batch: int, written: Sequence[Written], controls: Mapping[Target, Control]) -> None:
        self._totals.update({each.slot: each.total for each in written})
        for target, control in controls.items():
            self._system.tell(target.stream, control.to_builtins())

    def settle(self) -> None:
        """Wait until readers can see all records. This can take some time after the commit, because the brokers must
        first mark the transaction's end in each partition. Return after ``_SETTLING`` seconds at the latest, because
        transactions of other lanes may be open in the same partitions.
        """
        mine = [stream for stream, system in self._lane.systems.items() if system == "kafka"]

        def look() -> bool | None:
            return all(self._system.ends(s) == self._system.high_watermarks(s) for s in mine) or None

        with contextlib.suppress(OutOfTimeError):
            wait_until(look, _SETTLING, lambda: OutOfTimeError("transactions of others are open", ""), _STEP)

    def put_aside(self, streams: Sequence[str]) -> int:
        aside = {slot for slot, name in enumerate(self._lane.slots) if ":" in name}
        return sum(rows for slot, rows in self._totals.items() if slot in aside)


def fence(settings: KafkaSettings, lane: Lane, epoch: int, *, new: bool | None, closed: bool = False) -> int:
    """Make a lane's slots refuse every epoch lower than ``epoch``. Also abort the slots' open transactions, because a
    marker can't be read while its transaction is open. Returns the last batch that at least one slot has committed; -1
    if there is none. For the errors, see :func:`fencing.fence`.

    ``closed`` says whether to close the slots. Closed slots refuse even the process with ``epoch``, until
    :meth:`KafkaPublisher.take` opens them again.
    """
    slots = range(len(lane.slots))
    held = transactions.fence(settings, lane.job, lane.id, lane.group, slots, epoch, new=new, closed=closed)
    return max((marker.batch for marker in held.values()), default=markers.NOTHING)


def peeked(settings: KafkaSettings, lane: Lane) -> int:
    """The last batch that a running lane is known to have committed in any slot; see :func:`markers.peeked`."""
    return markers.peeked(settings, lane.job, lane.id, lane.group, range(len(lane.slots)))


def published(settings: KafkaSettings, lane: Lane) -> int:
    """The last batch that a lane has committed in any slot; -1 if none."""
    found = markers.markers(settings, lane.job, lane.id, lane.group, range(len(lane.slots)))
    return max((marker.batch for marker in found.values() if marker is not None), default=-1)
