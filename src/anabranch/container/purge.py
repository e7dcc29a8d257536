"""Deletes from intermediate streams what every lane that reads them has behind it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
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
"""A stage and a group of it."""
Readers = Mapping[Reader, Collection[str]]

_EVERY = 60.0

log = logs.get_logger()


def behind(
    lanes: Collection[tuple[Lane, LaneReport]], streams: Collection[str], readers: Readers
) -> dict[str, dict[int, int]]:
    """Stream → partition → the offset before which all lanes have read and committed.

    What a lane has no position of yet is left out, and what others may have to read: partitions of which these lanes
    haven't all buckets.

    Args:
        lanes: those of one container that read any of ``streams``.
        readers: which streams the lanes of each stage and group read; there may be none of some now.
    """
    found: dict[str, dict[int, int]] = {}
    silent: set[tuple[str, int]] = set()
    for lane, report in lanes:
        held = parsed(report.positions)
        for ssp in (*lane.ssps, *lane.broadcast):
            if ssp.stream not in streams:
                continue
            if ssp.whole not in held or report.batch < 0:
                silent.add((ssp.stream, ssp.partition))
                continue
            of_stream = found.setdefault(ssp.stream, {})
            of_stream[ssp.partition] = min(held[ssp.whole], of_stream.get(ssp.partition, held[ssp.whole]))
    sure = _whole([lane for lane, _ in lanes], readers) - silent
    return {stream: {p: offset for p, offset in each.items() if (stream, p) in sure} for stream, each in found.items()}


def _whole(lanes: Iterable[Lane], readers: Readers) -> set[tuple[str, int]]:
    """The partitions of which these lanes have all buckets, for each of the readers."""
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
    """Delete the records before these offsets. What can't be deleted now is another time."""
    for stream, offsets in before.items():
        wanted = {partition: offset for partition, offset in offsets.items() if offset > 0}
        try:
            system.purge(stream, wanted)
        except AnabranchError as error:
            log.warning("records that were read can't be deleted", stream=stream, error=str(error))


class Purge:
    """Now and then, deletes what was read of the intermediate streams that don't forget by themselves."""

    def __init__(self, graph: Graph, systems: Systems) -> None:
        self._own = {stages.stream_of(graph, node) for node in graph.nodes if is_boundary(node)}
        self._systems = systems
        self._readers: dict[Reader, set[str]] = {}
        self._purged_at = time.monotonic()

    def note(self, lane: Lane) -> None:
        """Keep what the lanes of a stage and group read."""
        self._readers[lane.stage, lane.group] = {ssp.stream for ssp in lane.ssps}

    def turn(self, lanes: Collection[tuple[Lane, LaneReport]]) -> None:
        """Delete what all of the container's lanes have behind them, if that was done long ago."""
        if time.monotonic() < self._purged_at + _EVERY:
            return
        self._purged_at = time.monotonic()
        streams: dict[str, set[str]] = {}
        for ssp in {ssp for lane, _ in lanes for ssp in lane.ssps if ssp.stream in self._own}:
            streams.setdefault(ssp.system, set()).add(ssp.stream)
        for name, read in streams.items():
            forget(self._systems.named(name), behind(lanes, read, self._readers))
