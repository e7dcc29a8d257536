"""Deletes from intermediate streams what every lane that reads them has behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import structlog

from anabranch.errors import AnabranchError
from anabranch.messages import LaneReport
from anabranch.model.lane import Lane
from anabranch.model.ssp import parsed
from anabranch.systems.kafka.system import KafkaSystem

__all__ = ["behind", "forget"]

log = structlog.get_logger()


def behind(lanes: Iterable[tuple[Lane, LaneReport]], streams: Collection[str]) -> dict[str, dict[int, int]]:
    """Stream → partition → the offset before which all lanes have read and committed.

    ``lanes``: all of the job that read any of ``streams``. What one of them has no position of yet is left out.
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
    return {
        stream: {p: offset for p, offset in each.items() if (stream, p) not in silent} for stream, each in found.items()
    }


def forget(kafka: KafkaSystem, before: dict[str, dict[int, int]]) -> None:
    """Delete the records before these offsets. What can't be deleted now is another time."""
    for stream, offsets in before.items():
        wanted = {partition: offset for partition, offset in offsets.items() if offset > 0}
        try:
            kafka.forget(stream, wanted)
        except AnabranchError as error:
            log.warning("records that were read can't be deleted", stream=stream, error=str(error))
