"""Whether the streams that a lane writes are there: to one that is gone, a query tries to write on for minutes."""

from __future__ import annotations

from anabranch import logs
from anabranch.errors import AnabranchError, StateError
from anabranch.model.lane import Lane
from anabranch.systems.systems import Systems

__all__ = ["Outputs"]

log = logs.get_logger()


class Outputs:
    """The streams that a lane writes, but for tables."""

    def __init__(self, systems: Systems, lane: Lane) -> None:
        self._systems = systems
        self._lane = lane
        self._gone = ""

    def check(self) -> None:
        """Look for them. Raises StateError if one is gone, and was the last time."""
        lane = self._lane
        streams = sorted(stream for stream in lane.outputs if not self._systems.is_table(stream))
        systems = {lane.system(stream) for stream in streams}
        try:
            there = {name: self._systems.named(name).streams() for name in systems}
        except AnabranchError as error:
            log.debug("the output streams aren't known", lane=lane.id, error=str(error))
            return
        gone = next((stream for stream in streams if stream not in there[lane.system(stream)]), "")
        if gone and gone == self._gone:
            raise StateError(
                f"the output stream {gone!r} of lane {lane.id} is gone from {lane.system(gone)}",
                "restore it; or, to begin afresh, give the job another name",
            )
        self._gone = gone
