"""``anabranch fence``: takes a container's seat away, so its lanes are fenced. Outputs that can be fenced then refuse
what the container writes."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import connect, options, progress, waiting
from anabranch.errors import OutOfTimeError
from anabranch.protocol.status import JobStatus

_POLL = 0.2


def fence(
    container: Annotated[str, typer.Argument(help="The process's id, as shown by status: JOB:SEAT:EPOCH.")],
    why: Annotated[str, typer.Option(help="The reason, for the log of events.")] = "",
    coordinator: options.Url = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until its lanes are fenced.")] = 60.0,
    detach: options.Detach = False,
    config: options.Config = None,
) -> None:
    """Take a container's seat away, and wait until its lanes are fenced. Ctrl-C stops only the waiting."""
    job, _, seat = container.rpartition(":")[0].partition(":")
    with connect.at(configuration.load(config), coordinator) as client:
        client.fence(container, why)
        left: list[str] = []

        def look(status: JobStatus) -> bool | None:
            lanes = [one.lane for one in status.lanes]
            left[:] = [lane.id for lane in lanes if lane.unfenced and lane.seat == seat]
            return None if left else True

        def late() -> OutOfTimeError:
            return OutOfTimeError(
                f"lane(s) {', '.join(left)} of container {container} could not be fenced within {timeout:g} s",
                f"the coordinator keeps trying; anabranch events {job} says why it fails",
            )

        if not detach:
            waiting.polled(job, lambda: client.status(job), look, timeout, late, _POLL)
    progress.say(f"container {container} has lost its seat" + ("" if detach else "; its lanes are fenced"))
