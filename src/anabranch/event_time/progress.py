"""The event time that a lane has reached, and how each batch changes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.event_time.control import Control

SOURCE = "event-time"
"""The value of ``source`` that distinguishes the event time in a lane's offset log from the offsets of streams."""


@dataclass(frozen=True)
class Upstream:
    """What a lane knows from the control records that it has read so far from one SSP of an intermediate stream.

    Attributes:
        cursor: the place in the log up to which control records were processed, as the system counts places; -1 if none
            were processed.
        heard: the last watermark of each lane that writes the SSP; None if the lane has none yet. A lane that is known
            only from the control records of its co-writers has the lowest watermark of its predecessors.
        gone: the lanes whose reports no longer count, such as lanes that their successors have replaced. Each of these
            lanes is mapped to the lanes that have since sent a report that doesn't name it. Once all lanes in ``heard``
            have sent such a report, the lane leaves ``gone``, because no later report can name it. In the log, a lane's
            last report precedes the reports of its successors, and new lanes don't name lanes that were closed before.
        resting: lanes that are idle, according to their last control records.
    """

    cursor: int = -1
    heard: Mapping[str, int | None] = field(default_factory=dict)
    gone: Mapping[str, frozenset[str]] = field(default_factory=dict)
    resting: frozenset[str] = frozenset()

    def after(self, controls: Iterable[Control], cursor: int) -> Upstream:
        """What the lane knows after it has also read ``controls``, control records in the order of the log. ``cursor``
        is the place in the log that the lane has reached with ``controls``.
        """
        heard, gone, resting = dict(self.heard), dict(self.gone), set(self.resting)
        for control in controls:
            for lane, before in {**control.beside, control.lane: control.predecessors}.items():
                if lane not in gone:
                    heard.setdefault(lane, _lowest(heard[p] for p in before if p in heard))
            for predecessor in control.predecessors:
                heard.pop(predecessor, None)
                gone.setdefault(predecessor, frozenset())
            if control.lane not in gone:
                heard[control.lane] = _later(heard.get(control.lane), control.watermark)
                (resting.add if control.idle else resting.discard)(control.lane)
                named = {*control.beside, *control.predecessors}
                since = {lane: told if lane in named else told | {control.lane} for lane, told in gone.items()}
                gone = {lane: told & heard.keys() for lane, told in since.items() if heard.keys() - told}
        return Upstream(cursor, heard, gone, frozenset(resting & heard.keys()))

    @property
    def idle(self) -> bool:
        """Whether all lanes that write the SSP are idle."""
        return bool(self.heard) and self.heard.keys() <= self.resting

    @property
    def watermark(self) -> int | None:
        """The watermark of the SSP: the lowest watermark of the lanes that write the SSP and aren't idle. If one of
        these lanes has no watermark yet, the result is None. If all lanes that write the SSP are idle, the result is
        the highest of their watermarks. If none of them has a watermark, the result is None.
        """
        return _reached({lane: at for lane, at in self.heard.items() if lane not in self.resting}, self.heard)


@dataclass(frozen=True)
class Progress:
    """A lane's event time after a batch. SSPs have the form ``system/stream/partition``; times are Unix ms.

    Attributes:
        maxima: the latest event time of each SSP that was read.
        upstream: for each SSP of an intermediate stream, the reports of the lanes that write the SSP.
        idle: the idle SSPs of streams that aren't intermediate.
    """

    watermark: int | None = None
    maxima: Mapping[str, int] = field(default_factory=dict)
    upstream: Mapping[str, Upstream] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()

    def to_builtins(self) -> dict[str, Any]:
        """The form in which the event time is stored in a lane's offset log."""
        return {
            "source": SOURCE,
            "version": 1,
            "watermark": self.watermark,
            "maxima": dict(sorted(self.maxima.items())),
            "upstream": {
                ssp: {
                    "cursor": each.cursor,
                    "heard": dict(sorted(each.heard.items())),
                    "gone": sorted(each.gone),
                    "since": {lane: sorted(since) for lane, since in sorted(each.gone.items()) if since},
                    "resting": sorted(each.resting),
                }
                for ssp, each in sorted(self.upstream.items())
            },
            "idle": sorted(self.idle),
        }


def from_builtins(value: Mapping[str, Any]) -> Progress:
    """The inverse of :meth:`Progress.to_builtins`."""
    upstream = {
        ssp: Upstream(
            each["cursor"],
            each["heard"],
            {lane: frozenset(each.get("since", {}).get(lane, ())) for lane in each["gone"]},
            frozenset(each.get("resting", ())),
        )
        for ssp, each in value["upstream"].items()
    }
    return Progress(value["watermark"], value["maxima"], upstream, frozenset(value.get("idle", ())))


def after(
    progress: Progress,
    delays: Mapping[str, int | None],
    maxima: Mapping[str, int],
    upstream: Mapping[str, Upstream],
) -> Progress:
    """The event time after a batch. The watermark is the minimum of the watermarks of all SSPs that aren't idle. If the
    watermark of one of these SSPs isn't known, the lane's watermark stays the same. If all SSPs are idle, the lane's
    watermark is the maximum of their watermarks. The watermark never falls. An SSP with an event time in the batch is
    no longer idle.

    Args:
        delays: the declared watermark delay, in ms, of every SSP that determines the watermark; None for an SSP of an
            intermediate stream.
        maxima: the latest event time of each SSP in the batch.
        upstream: for each SSP of an intermediate stream, its writers' reports up to the end of the batch.
    """
    seen = dict(progress.maxima)
    for ssp, at in maxima.items():
        seen[ssp] = max(at, seen.get(ssp, at))
    idle = progress.idle - maxima.keys()
    now = replace(progress, maxima=seen, upstream={**progress.upstream, **upstream}, idle=idle)
    known = {ssp: of_ssp(now, ssp, delay) for ssp, delay in delays.items()}
    reached = _reached({ssp: at for ssp, at in known.items() if not _rests(now, ssp, delays[ssp])}, known)
    return replace(now, watermark=_later(progress.watermark, reached))


def all_idle(progress: Progress, delays: Mapping[str, int | None]) -> bool:
    """Whether all SSPs in ``delays`` are idle. For ``delays``, see :func:`after`."""
    return bool(delays) and len(resting(progress, delays)) == len(delays)


def resting(progress: Progress, delays: Mapping[str, int | None]) -> list[str]:
    """The SSPs in ``delays`` that are idle, and so don't hold the watermark back. For ``delays``, see
    :func:`after`.
    """
    return [ssp for ssp, delay in delays.items() if _rests(progress, ssp, delay)]


def joined(several: Iterable[tuple[Progress, Collection[str]]]) -> Progress:
    """The initial event time of a lane. ``several`` contains each predecessor's event time, with the SSPs that the
    predecessor has read. For each SSP, the predecessor that is furthest behind counts.
    """
    readers: dict[str, list[Progress]] = {}
    found = list(several)
    for each, ssps in found:
        for ssp in ssps:
            readers.setdefault(ssp, []).append(each)
    maxima = {ssp: _lowest(each.maxima.get(ssp) for each in its) for ssp, its in readers.items()}
    upstream = {
        ssp: min((each.upstream[ssp] for each in its), key=lambda told: told.cursor)
        for ssp, its in readers.items()
        if all(ssp in each.upstream for each in its)
    }
    return Progress(
        watermark=_lowest(each.watermark for each, _ in found),
        maxima={ssp: at for ssp, at in maxima.items() if at is not None},
        upstream=upstream,
        idle=frozenset(ssp for ssp, its in readers.items() if all(ssp in each.idle for each in its)),
    )


def cleared(left: Progress, ssps: Iterable[str], writers: Iterable[str]) -> Progress:
    """The initial event time of a lane that takes nothing over from its predecessor. This event time has no watermark.
    It contains only how far the control records of each SSP were read, and which lanes' reports no longer count.

    Args:
        left: the event time with which the predecessor ended.
        ssps: the SSPs of intermediate streams that the lane reads.
        writers: the lanes that have written these SSPs so far, whose reports no longer count.
    """
    found = {}
    for ssp in ssps:
        told = left.upstream.get(ssp, Upstream())
        found[ssp] = Upstream(told.cursor, {}, dict.fromkeys((*told.gone, *told.heard, *writers), frozenset()))
    return Progress(upstream=found)


def times(progress: Progress, delays: Mapping[str, int | None]) -> dict[str, int]:
    """The watermark of each SSP that has one. For ``delays``, see :func:`after`."""
    known = {ssp: of_ssp(progress, ssp, delay) for ssp, delay in delays.items()}
    return {ssp: at for ssp, at in known.items() if at is not None}


def of_ssp(progress: Progress, ssp: str, delay: int | None) -> int | None:
    """The watermark of one SSP; None as long as it isn't known. ``delay`` is the SSP's value in the ``delays`` of
    :func:`after`.
    """
    if delay is None:
        told = progress.upstream.get(ssp)
        return None if told is None else told.watermark
    return None if ssp not in progress.maxima else progress.maxima[ssp] - delay


def held_by(progress: Progress, delays: Mapping[str, int | None]) -> str | None:
    """The SSP that holds the watermark back. If there are active SSPs whose watermark isn't known, the first of these
    SSPs by name is returned. Otherwise, the active SSP with the lowest watermark is returned. None if all SSPs are
    idle.
    """
    active = {ssp: delay for ssp, delay in delays.items() if not _rests(progress, ssp, delay)}
    if not active:
        return None
    known = {ssp: of_ssp(progress, ssp, delay) for ssp, delay in active.items()}
    silent = [ssp for ssp, at in known.items() if at is None]
    return min(silent) if silent else min(known, key=lambda ssp: (known[ssp] or 0, ssp))


def _rests(progress: Progress, ssp: str, delay: int | None) -> bool:
    if delay is None:
        return ssp in progress.upstream and progress.upstream[ssp].idle
    return ssp in progress.idle


def _reached(active: Mapping[str, int | None], known: Mapping[str, int | None]) -> int | None:
    """The minimum of the watermarks in ``active``. If one of these watermarks is None, the result is None. If
    ``active`` is empty, the result is the maximum of the watermarks in ``known``, leaving out those that are None. If
    that leaves no watermarks, the result is None.
    """
    return _lowest(active.values()) if active else max((at for at in known.values() if at is not None), default=None)


def _lowest(times: Iterable[int | None]) -> int | None:
    found = list(times)
    return None if not found or any(at is None for at in found) else min(at for at in found if at is not None)


def _later(first: int | None, second: int | None) -> int | None:
    known = [at for at in (first, second) if at is not None]
    return max(known, default=None)
