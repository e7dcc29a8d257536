"""A container takes a seat and sends heartbeats; the coordinator answers with the lanes that it should run."""

from __future__ import annotations

from typing import Annotated

import msgspec

from anabranch.model.document import Document
from anabranch.model.lane import Lane
from anabranch.protocol.drain import DrainOrder
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.standby import StandbyOrder, StandbyReport

__all__ = ["Heartbeat", "HeartbeatResponse", "Registration", "RegistrationResponse", "WantedLane"]


class Registration(Document, frozen=True, kw_only=True):
    """A process wants a seat, the one that is named or any free one; said twice, it is the same one.

    ``deployment``: whose code it has; 0: that of the present one.
    ``execution`` is its EXECUTION_ENV_CONTAINER_ID, which it may have in common with one before it; ``instance`` is
    its own. Of one that stands by: ``copies``, the standbys that it keeps, and ``warm``, whether its session has run
    all that it should have run before lanes begin in it.
    """

    job: str
    execution: str
    host: str
    pid: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    instance: str = ""
    seat: str | None = None
    rack: str | None = None
    deployment: int = 0
    copies: tuple[StandbyReport, ...] = ()
    warm: bool = True


class RegistrationResponse(Document, frozen=True, kw_only=True):
    """The process's container id and epoch, and how long its lease lasts from each beat, in seconds.

    ``seat`` None: all of them are taken: ask again. ``done``: nor will one be free, as the job doesn't run, or another
    deployment of it does. ``copies``: the standbys to keep meanwhile.
    """

    lease: float
    seat: str | None = None
    container: str = ""
    epoch: int = 0
    done: bool = False
    copies: tuple[StandbyOrder, ...] = ()


class Heartbeat(Document, frozen=True, kw_only=True):
    """A beat. ``seen`` is the ``revision`` of the last answer: a newer one is answered at once.

    ``number`` rises: of a beat that another one has overtaken, the lanes aren't heard. ``leaving``: all its lanes have
    ended, and it gives its seat back. ``copies``: the standbys that it keeps.
    """

    container: str
    epoch: int
    number: int
    seen: int = -1
    lanes: tuple[LaneReport, ...] = ()
    leaving: bool = False
    copies: tuple[StandbyReport, ...] = ()


class WantedLane(Document, frozen=True, kw_only=True):
    """A lane to run. ``upstream_ended``: all lanes that write its inputs have ended: it may end when it is read out.

    ``closing``: not to run, but to end at a batch boundary; what it has begun it must finish first, or take back.
    ``now``: it doesn't wait for what is only done again then. ``draining``: how it drains, if it does.
    """

    lane: Lane
    upstream_ended: bool = False
    closing: bool = False
    now: bool = False
    draining: DrainOrder | None = None


class HeartbeatResponse(Document, frozen=True, kw_only=True):
    """What the container should run. Lanes that it runs and that aren't wanted are stopped at a batch boundary; with
    ``at_once`` the batch that runs is broken off, and is finished when they go on.

    ``alive`` false: stop everything and exit non-zero, for ``reason``. ``done``: nothing is left to run: exit.
    ``same``: all is as in the answer of that ``revision``, which the beat has seen; nothing of it is said again.
    ``coming``: lanes that will be wanted here once those are closed that they go on from. What can be prepared may be;
    nothing is told of it. ``copies``: the standbys that it should keep, or remove.
    """

    alive: bool
    revision: int
    wanted: tuple[WantedLane, ...] = ()
    coming: tuple[Lane, ...] = ()
    copies: tuple[StandbyOrder, ...] = ()
    until_caught_up: bool = False
    at_once: bool = False
    done: bool = False
    same: bool = False
    reason: str | None = None
