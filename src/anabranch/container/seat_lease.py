"""What a container knows about its seat: the heartbeats, the lease, and when the container must stop. No threads, no
network, no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anabranch.protocol.container import Heartbeat, HeartbeatResponse, RegistrationResponse
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.standby import StandbyReport

__all__ = ["SeatLease", "SentHeartbeat"]

_STOPPING = 1 / 3
"""The share of a lease that is reserved for stopping, so that nothing is written after the end of the lease."""


@dataclass(frozen=True)
class SentHeartbeat:
    """A heartbeat that was sent at the time ``at`` on the container's clock."""

    beat: Heartbeat
    at: float


class SeatLease:
    """A container's lease on its seat. Not thread-safe.

    Args:
        me: the coordinator's answer to the request for the seat.
        registered_at: when the seat was requested, on ``clock``.
        clock: returns the seconds of a clock that keeps running while the machine sleeps.
        stops_because: why a container that can't reach its coordinator stops before its lease ends; empty if such a
            container continues. A container in a separate process continues only if ``[job] on_coordinator_loss`` is
            "continue", if the job doesn't run in real time, and if all of the job's outputs can be fenced.
    """

    def __init__(
        self, me: RegistrationResponse, registered_at: float, clock: Callable[[], float], *, stops_because: str
    ) -> None:
        self.me = me
        self._clock = clock
        self._stops_because = stops_because
        self._number = 0
        self._heard = -1
        self._sent_before_answer = 0
        """The number of the last heartbeat that was sent before ``answer`` arrived."""
        self._lease_until = registered_at + me.lease
        self._answer: HeartbeatResponse | None = None
        self._refused = ""
        self._missed = ""
        self._has_left = False
        self._watched = False
        """Whether somebody is looking at the job's partitions. If so, heartbeats must contain the lanes' complete
        reports."""

    @property
    def answer(self) -> HeartbeatResponse | None:
        """The newest answer; None before the first one."""
        return self._answer

    @property
    def lease_left(self) -> float:
        """The seconds until the lease ends; negative afterwards. The lease begins when the last answered heartbeat was
        sent or, before the first answer, at ``registered_at``.
        """
        return self._lease_until - self._clock()

    @property
    def orphaned(self) -> str:
        """Why the coordinator couldn't be reached before the lease ended. Empty as long as the lease hasn't ended, or
        if the coordinator could be reached."""
        return self._missed if self._missed and self.lease_left <= 0 else ""

    @property
    def must_stop(self) -> str:
        """Why everything must end now; empty as long as the container can continue. An expiring lease is a
        reason only if ``stops_because`` isn't empty and the container hasn't given up its seat. Once there is a reason,
        everything must end, even if the coordinator can be reached again."""
        keep = self.me.lease * _STOPPING
        expires = self._stops_because and not self._has_left
        if not self._refused and expires and self.lease_left <= keep:
            silence = f"the coordinator was not heard for {self.me.lease - keep:.0f} s"
            self._refused = f"{silence}, and {self._stops_because}" + (f" ({self._missed})" if self._missed else "")
        return self._refused

    def beat(
        self,
        reports: Sequence[LaneReport],
        *,
        leaving: bool = False,
        returns: bool = False,
        copies: Sequence[StandbyReport] = (),
        prepared: Sequence[str] = (),
    ) -> SentHeartbeat:
        """The next heartbeat. ``leaving`` is True if the container gives up its seat. ``returns`` is True if a new
        process will ask for a seat in place of this process. For the other arguments, see :meth:`Heartbeats.take`.
        """
        self._number += 1
        seen = -1 if self._answer is None else self._answer.revision
        beat = Heartbeat(
            container=self.me.container,
            epoch=self.me.epoch,
            number=self._number,
            seen=seen,
            lanes=tuple(reports if self._watched else (each.brief() for each in reports)),
            leaving=leaving,
            returns=returns,
            copies=tuple(copies),
            prepared=tuple(prepared),
        )
        return SentHeartbeat(beat, self._clock())

    def hear(self, sent: SentHeartbeat, answer: HeartbeatResponse) -> None:
        """Process the answer to a heartbeat. An answer that says that the seat is lost always counts.

        The orders in the answer are ignored if a later heartbeat has already been answered, or if other orders have
        arrived since the heartbeat was sent. In the latter case, it isn't known which orders are newer. If the ignored
        orders are newer, the answer to the next heartbeat contains them again.
        """
        if not answer.alive:
            self._refused = answer.reason or "the coordinator says so"
            return
        self._missed = ""
        self._lease_until = max(self._lease_until, sent.at + self.me.lease)
        self._has_left = self._has_left or (sent.beat.leaving and answer.done)
        if sent.beat.number > self._heard:
            self._heard = sent.beat.number
            self._watched = answer.watched
            if not answer.same and sent.beat.number > self._sent_before_answer:
                self._answer, self._sent_before_answer = answer, self._number

    def miss(self, why: str) -> None:
        """Record a heartbeat that received no answer."""
        self._missed = why
