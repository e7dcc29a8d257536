"""What the events of a job say, as ``anabranch events JOB --json`` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_STOOD_STILL = "output stood still for "
"""So an event says how long that was; no status has it as a figure."""
_SHOULD_STAND_STILL = "output should stand still for "
"""So an event says, when a change is made, how long that should be."""


def pause(events: Iterable[Mapping[str, str]]) -> float | None:
    """The seconds for which output stood still in the first change of these that was measured; None: none was."""
    return _seconds(events, _STOOD_STILL)


def foretold(events: Iterable[Mapping[str, str]]) -> float | None:
    """The seconds for which output should stand still, as was said when the first change of these was made; None: there
    was none.
    """
    return _seconds(events, _SHOULD_STAND_STILL)


def _seconds(events: Iterable[Mapping[str, str]], words: str) -> float | None:
    for event in events:
        _, told, seconds = event["what"].partition(words)
        if told:
            return float(seconds.split()[0])
    return None
