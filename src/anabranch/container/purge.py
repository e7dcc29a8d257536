"""Deletes records from intermediate streams once all lanes that read these streams have committed the records."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction

from anabranch import logs
from anabranch.errors import AnabranchError
from anabranch.model.graph import Graph
from anabranch.model.lane import Lane
from anabranch.model.ssp import WHOLE, parsed
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages
from anabranch.protocol.lane_report import LaneReport
from anabranch.systems.contract import System
from anabranch.systems.systems import Systems

__all__ = ["Purge", "Reader", "Readers", "behind", "forget"]

Reader = tuple[str, str]
"""A stage and one of its groups, whose lanes read the same streams."""
Readers = Mapping[Reader, Collection[str]]

_EVERY = 60.0

log = logs.get_logger()


def behind(
    lanes: Collection[tuple[Lane, LaneReport]], streams: Collection[str], readers: Readers
) -> dict[str, dict[int, int]]:
    """For each stream and partition, the offset before which all lanes have read and committed everything.

    A partition is left out if one of the lanes has no position in it, or has committed no batch yet. A partition is
    also left out if the given lanes don't own all of its buckets, because lanes of other containers may still have to
    read it.

    Args:
        lanes: the lanes of one container that read any of ``streams``.
        readers: the streams that the lanes of each stage and group read, including groups that have no lanes here now.
    """
    found: dict[str, dict[int, int]] = {}
    silent: set[tuple[str, int]] = set()
    for lane, report in lanes:
        held = parsed(report.progress.positions)
        for ssp in (*lane.ssps, *lane.broadcast):
            if ssp.stream not in streams:
                continue
            if ssp.whole not in held or report.progress.batch < 0:
                silent.add((ssp.stream, ssp.partition))
                continue
            of_stream = found.setdefault(ssp.stream, {})
            of_stream[ssp.partition] = min(held[ssp.whole], of_stream.get(ssp.partition, held[ssp.whole]))
    sure = _whole([lane for lane, _ in lanes], readers) - silent
    return {stream: {p: offset for p, offset in each.items() if (stream, p) in sure} for stream, each in found.items()}


def _whole(lanes: Iterable[Lane], readers: Readers) -> set[tuple[str, int]]:
    """The partitions that these lanes read completely: for every stage and group that reads the stream, the given lanes
    have all buckets of the partition.
    """
    shares: dict[tuple[str, int], dict[Reader, Fraction]] = {}
    for lane in lanes:
        for ssp in lane.ssps:
            share = Fraction(1, 1 if ssp.key_bucket == WHOLE else lane.factor)
            of_reader = shares.setdefault((ssp.stream, ssp.partition), {})
            of_reader[lane.stage, lane.group] = of_reader.get((lane.stage, lane.group), Fraction(0)) + share
    return {
        (stream, partition)
        for (stream, partition), of_reader in shares.items()
        if all(of_reader.get(reader, 0) >= 1 for reader, streams in readers.items() if stream in streams)
    }


def forget(system: System, before: dict[str, dict[int, int]]) -> None:
    """Delete the records before these offsets. If this fails, a warning is logged, and a later call deletes them."""
    for stream, offsets in before.items():
        wanted = {partition: offset for partition, offset in offsets.items() if offset > 0}
        try:
            system.purge(stream, wanted)
        except AnabranchError as error:
            log.warning("records that were read can't be deleted", stream=stream, error=str(error))


class Purge:
    """Every minute, deletes those records of intermediate streams that all lanes had already read one minute earlier.

    The delay protects against power cuts: if a power cut removes the last batch from a lane's folder, the lane must
    read the records of this batch again.
    """

    def __init__(self, graph: Graph, systems: Systems, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._own = {stages.stream_of(graph, node) for node in graph.nodes if is_boundary(node)}
        self._systems = systems
        self._readers: dict[Reader, set[str]] = {}
        self._monotonic = monotonic
        self._purged_at = monotonic()
        self._due: dict[str, dict[str, dict[int, int]]] = {}

    def note(self, lane: Lane) -> None:
        """Record which streams the lanes of this lane's stage and group read."""
        self._readers[lane.stage, lane.group] = {ssp.stream for ssp in lane.ssps}

    def turn(self, lanes: Collection[tuple[Lane, LaneReport]]) -> None:
        """If a turn is due, delete the records that all lanes had read at the previous turn."""
        if self._monotonic() < self._purged_at + _EVERY:
            return
        self._purged_at = self._monotonic()
        for name, before in self._due.items():
            forget(self._systems.named(name), before)
        streams: dict[str, set[str]] = {}
        for ssp in {ssp for lane, _ in lanes for ssp in lane.ssps if ssp.stream in self._own}:
            streams.setdefault(ssp.system, set()).add(ssp.stream)
        self._due = {name: behind(lanes, read, self._readers) for name, read in streams.items()}
