"""Determines the start offsets of a rewind from the user's request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from anabranch.errors import NotFoundError, UsageError
from anabranch.model.ssp import SSP
from anabranch.systems.systems import Systems

__all__ = ["EARLIEST", "ends", "instant", "offsets"]

EARLIEST = "earliest"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLE, _WITH_OFFSET = "2026-11-22T10:00:00Z", "2026-11-22T11:00:00+01:00"


def offsets(to: str | Mapping[str, int], job: str, sources: Sequence[SSP], systems: Systems) -> dict[str, int]:
    """The offsets from which to read again, keyed by whole SSPs in text form. If ``to`` contains offsets, the result
    has the partitions in ``to``; otherwise, it has all of ``sources``.

    After this call, the embedded log keeps the existing records of all ``sources`` until the job has begun to read from
    these offsets. If the job isn't rewound, the log normally keeps these records for at least a minute. In a system
    that doesn't know which jobs read its streams, such as Kafka, retention can delete records at any time.

    Args:
        to: "earliest", a time (see :func:`instant`), or offsets, keyed by whole SSPs in text form.
        sources: the partitions that the job reads and doesn't write.

    Raises:
        UsageError: ``to`` is empty, malformed or a time in the future; an offset in ``to`` is outside its partition; or
            all records are older than the given time.
        NotFoundError: a partition in ``to`` isn't in ``sources``, or a stream no longer exists.
        AnabranchError: a system doesn't answer.
    """
    _hold(job, sources, systems)
    if not isinstance(to, str):
        return _checked(to, job, sources, systems)
    asked = {(ssp.system, ssp.stream) for ssp in sources}
    if to == EARLIEST:
        starts = {each: systems.named(each[0]).starts(each[1]) for each in asked}
        return {str(ssp): starts[ssp.system, ssp.stream][ssp.partition] for ssp in sources}
    at = instant(to)
    found = {each: systems.named(each[0]).offset_at(each[1], unix_us=at) for each in asked}
    if all(found[each] == systems.named(each[0]).ends(each[1]) for each in asked):
        raise UsageError(f"no record that job {job!r} reads has the time {to}, or a later one", "give an earlier time")
    return {str(ssp): found[ssp.system, ssp.stream][ssp.partition] for ssp in sources}


def _hold(job: str, sources: Sequence[SSP], systems: Systems) -> None:
    for name, stream in sorted({(ssp.system, ssp.stream) for ssp in sources}):
        readers = systems.named(name).readers()
        if readers is not None:
            readers.hold_all(stream, job)


def ends(sources: Sequence[SSP], systems: Systems) -> dict[str, int]:
    """The current ends of partitions, keyed by SSPs in text form. Records of open transactions lie before these ends,
    too. So before this call, no reader can have seen a record at or beyond its partition's end.

    Raises:
        NotFoundError: a stream no longer exists.
        AnabranchError: a system doesn't answer.
    """
    asked = {(ssp.system, ssp.stream) for ssp in sources}
    found = {each: systems.named(each[0]).high_watermarks(each[1]) for each in asked}
    return {str(ssp): found[ssp.system, ssp.stream][ssp.partition] for ssp in sources}


def instant(text: str) -> int:
    """A time in microseconds since 1970, from ISO 8601 with an offset from UTC. Raises UsageError if the text has
    another form, or the time is in the future.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} isn't a place to rewind to", f"give earliest, a time like {_EXAMPLE}, or a file with positions"
        ) from None
    if at.tzinfo is None:
        raise UsageError(
            f"the time {text} has no offset from UTC",
            f"write it in UTC, as {_EXAMPLE}, or with an offset, as {_WITH_OFFSET}",
        )
    if at > datetime.now(UTC):
        raise UsageError(f"the time {text} is in the future", "a job is rewound to a time that is past")
    return (at - _EPOCH) // timedelta(microseconds=1)


def _checked(to: Mapping[str, int], job: str, sources: Sequence[SSP], systems: Systems) -> dict[str, int]:
    if not to:
        raise UsageError("there are no positions to rewind to", 'give some, as {"embedded/flights/0": 120}')
    known = {str(ssp): ssp for ssp in sources}
    unknown = next((text for text in to if text not in known), None)
    if unknown is not None:
        why = _unknown(SSP.parse(unknown), sources)
        raise NotFoundError(f"job {job!r} can't be rewound in {unknown}: {why}", f"it reads {_listed(sources)}")
    found = {}
    asked = {(known[text].system, known[text].stream) for text in to}
    starts = {each: systems.named(each[0]).starts(each[1]) for each in asked}
    ends = {each: systems.named(each[0]).ends(each[1]) for each in asked}
    for ssp in sources:
        text, stream = str(ssp), (ssp.system, ssp.stream)
        if text not in to:
            continue
        first, end, offset = starts[stream][ssp.partition], ends[stream][ssp.partition], to[text]
        if not first <= offset <= end:
            where = f"before its first record, {first}" if offset < first else f"beyond its end, {end}"
            raise UsageError(f"{text} has no offset {offset}: that is {where}", f"give one of {first} to {end}")
        found[text] = offset
    return found


def _unknown(ssp: SSP, sources: Sequence[SSP]) -> str:
    if ssp != ssp.whole:
        return "a bucket has no position of its own"
    if any((each.system, each.stream) == (ssp.system, ssp.stream) for each in sources):
        return "the stream has no such partition"
    return "that is none of the streams that it reads and doesn't write"


def _listed(sources: Sequence[SSP]) -> str:
    streams: dict[str, list[int]] = {}
    for ssp in sources:
        streams.setdefault(f"{ssp.system}/{ssp.stream}", []).append(ssp.partition)
    return ", ".join(f"{stream}/0 to {max(numbers)}" for stream, numbers in sorted(streams.items())) or "nothing"
