"""What the events of a job say, as ``anabranch events JOB --json`` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_STOOD_STILL = "output stood still for "
"""So an event says how long that was; no status has it as a figure."""


def pause(events: Iterable[Mapping[str, str]]) -> float | None:
    """The seconds for which output stood still in the first change of these that was measured; None: none was."""
    for event in events:
        _, told, seconds = event["what"].partition(_STOOD_STILL)
        if told:
            return float(seconds.split()[0])
    return None
