"""A lane's inputs: checks them, keeps retention from deleting unread records, and commits positions for other tools."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from anabranch import logs
from anabranch.config.headings import heading
from anabranch.container import partitioner_check
from anabranch.container.checkpoint.folder import Folder
from anabranch.errors import AnabranchError, StateError
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.spark.query import lost_ends
from anabranch.systems.systems import Systems

__all__ = ["Inputs"]

log = logs.get_logger()


class Inputs:
    """The streams that a lane reads. ``starting`` contains the lane's start offsets, which apply only to partitions
    that have no position in the lane's committed batches yet."""

    def __init__(self, systems: Systems, lane: Lane, starting: Mapping[SSP, int]) -> None:
        self._systems = systems
        self._lane = lane
        self._starting = starting
        self.ssps = tuple(dict.fromkeys(ssp.whole for ssp in (*lane.ssps, *lane.broadcast)))
        self.streams = sorted({(ssp.system, ssp.stream) for ssp in self.ssps})
        self._noted: dict[str, str] | None = None

    def ids(self) -> dict[str, str]:
        """The current id of each stream."""
        return {stream: self._systems.named(name).id(stream) for name, stream in self.streams}

    def ends(self) -> dict[SSP, int]:
        """The current end offset of each input partition; -1 if the partition doesn't exist."""
        told = {(name, stream): self._systems.named(name).ends(stream) for name, stream in self.streams}
        return {ssp: told[ssp.system, ssp.stream].get(ssp.partition, -1) for ssp in self.ssps}

    def tell(self, positions: Mapping[SSP, int]) -> bool:
        """Commit positions to the systems of the inputs, for the consumer group ``<job>.<stage>``. Only tools that show
        lag use these positions. Returns whether all positions were committed."""
        done = True
        told: dict[str, dict[str, dict[int, int]]] = {}
        for ssp, offset in positions.items():
            told.setdefault(ssp.system, {}).setdefault(ssp.stream, {})[ssp.partition] = offset
        for name, its in told.items():
            try:
                self._systems.named(name).commit_positions(f"{self._lane.job}.{self._lane.stage}", its)
            except AnabranchError as error:
                log.debug("positions could not be committed", lane=self._lane.id, system=name, error=str(error))
                done = False
        return done

    def warnings(self, own: Collection[str]) -> tuple[str, ...]:
        """Warnings about keys that other programs have written to partitions in which anabranch doesn't expect them.

        Only the newest keys in the lane's first and last partition of each stream are checked. Three kinds of streams
        aren't checked:

        - streams to which no other programs can write,
        - streams in ``own``, which the job writes itself,
        - broadcast inputs, because each task gets all of their keys.
        """
        found = []
        for name, stream in self.streams:
            mine = sorted(ssp.partition for ssp in self._lane.ssps if ssp.stream == stream)
            system = self._systems.named(name)
            if not system.foreign_producers or stream in own or not mine:
                continue
            try:
                base = partitioner_check.bases(self._lane, stream, system.partitions(stream))
                some = dict.fromkeys((mine[0], mine[-1]))
                found.append(partitioner_check.disagreeing(system, stream, some, base))
            except AnabranchError as error:
                log.debug("keys could not be looked at", stream=stream, error=str(error))
        return tuple(warning for warning in found if warning)

    def take(self, folder: Folder) -> None:
        """Record in a new lane's folder which streams the lane reads. In systems that keep track of the readers of
        their streams, prevent retention from deleting records that the lane has yet to read. Then check the streams
        like :meth:`check`, but without the pending batch.

        Raises:
            LogError: the job couldn't be recorded as a reader of a stream.
            NotFoundError: as for :meth:`check`.
            StateError: as for :meth:`check`.
        """
        # The ids are compared first: offsets in a former stream of this name must not be stored for this one.
        ids = self.ids()
        if not folder.stream_ids():
            for former in folder.of_others(self._lane.inherits):
                self._check_ids(former.stream_ids(), ids)
        folder.note_streams(ids)
        self._check_ids(folder.stream_ids(), ids)
        read = folder.positions()
        for name, stream in self.streams:
            readers = self._systems.named(name).readers()
            if readers is not None:
                readers.hold(stream, self._lane.job, self._begins(name, stream, read.get(stream, {})))
        self._check(folder)

    def _begins(self, name: str, stream: str, read: Mapping[int, int]) -> dict[int, int]:
        """The offsets at which the lane continues in a stream's partitions; 0 if unknown."""
        mine = [ssp for ssp in self.ssps if (ssp.system, ssp.stream) == (name, stream)]
        return {ssp.partition: read.get(ssp.partition, self._starting.get(ssp, 0)) for ssp in mine}

    def check(self, folder: Folder) -> None:
        """Check that the lane's streams are still the ones that it has read so far. Also check that no partition ends
        before the lane's position, and that none did when the pending batch was planned. Finally, check that all
        records that the lane has yet to read still exist.

        Args:
            folder: the lane's folder, which has the ids of the streams, and the lane's positions.

        Raises:
            NotFoundError: a stream is gone.
            StateError: a stream was deleted and created again, a partition ends before the lane's position, or records
                that have yet to be read are gone. (If ``on_data_loss`` isn't "fail", missing records only cause a
                warning.)
        """
        self._check(folder)
        if not folder.pending:
            return
        lost = lost_ends.of_batch(folder.batch(folder.planned()), self._lane, folder.starting())
        if lost is not None:
            raise lost

    def _check(self, folder: Folder) -> None:
        self._check_ids(folder.stream_ids(), self.ids())
        read = folder.positions()
        for name, stream in self.streams:
            self._check_positions(name, stream, read.get(stream, {}))

    def check_ids(self, folder: Folder) -> None:
        """Check, while a query runs, that no stream of the lane has been deleted and created again. Spark's Kafka
        connector doesn't notice such a change. Once the new topic has grown beyond the lane's position, the connector
        would skip the records before that position. Does nothing while the streams can't be looked up.

        Args:
            folder: the lane's folder. Only the first call reads the streams' ids from the folder.

        Raises:
            StateError: a stream was deleted and created again.
        """
        if self._noted is None:
            self._noted = folder.stream_ids()
        for name, stream in self.streams:
            try:
                found = self._systems.named(name).id(stream)
            except AnabranchError as error:  # brokers are away, or the stream is gone, which the query will notice
                log.debug("the id of an input isn't known", lane=self._lane.id, stream=stream, error=str(error))
            else:
                self._check_id(name, stream, self._noted.get(stream), found)

    def _check_ids(self, known: Mapping[str, str], ids: Mapping[str, str]) -> None:
        """Raise StateError if a stream's current id differs from the id that is noted in the lane's folder. A different
        id means that the stream was deleted and created again."""
        for name, stream in self.streams:
            self._check_id(name, stream, known.get(stream), ids[stream])

    def _check_id(self, name: str, stream: str, known: str | None, found: str) -> None:
        if known not in (None, found):
            raise StateError(
                f"stream {name}/{stream} isn't the one that lane {self._lane.id} has read so far (it was deleted "
                "and created again)",
                f"restore the former stream; or stop the job, and let it continue with this one: "
                f"anabranch accept {self._lane.job} {stream}",
            )

    def _check_positions(self, name: str, stream: str, read: Mapping[int, int]) -> None:
        system = self._systems.named(name)
        ends, starts = system.high_watermarks(stream), system.starts(stream)
        for ssp in self.ssps:
            if (ssp.system, ssp.stream) != (name, stream):
                continue
            at = read.get(ssp.partition, self._starting.get(ssp, starts[ssp.partition]))
            if at > ends[ssp.partition]:
                raise StateError(
                    f"{ssp} ends at offset {ends[ssp.partition]}, but lane {self._lane.id} has already read up to {at}",
                    lost_ends.remedy(self._lane.job, ssp.stream),
                )
            if at < starts[ssp.partition]:
                self._lost(ssp, at, starts[ssp.partition])

    def _lost(self, ssp: SSP, at: int, start: int) -> None:
        gone = f"offset {at} is" if start == at + 1 else f"offsets {at} to {start - 1} are"
        name = self._systems.bound_as(ssp.stream)
        if self._systems.on_data_loss(ssp.stream) == "fail":
            raise StateError(
                f"{ssp}: the {gone} gone, and lane {self._lane.id} had not read them yet: the stream's retention "
                "is shorter than the lane's lag was",
                f"to continue from the oldest record there is, set {heading('streams', name)} "
                'on_data_loss = "earliest"',
            )
        log.warning("records are gone before they were read", ssp=str(ssp), first=at, last=start - 1)
