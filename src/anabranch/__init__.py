"""anabranch: long-lived stream-processing jobs on Spark that change while they run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.api.processor import Processor
    from anabranch.api.state import ListState, MapState, ValueState
    from anabranch.api.timers import Timers
    from anabranch.event_time.windows import Session, Sliding, Tumbling, session, sliding, tumbling
    from anabranch.job import Job, Stream, Windowed

__all__ = [
    "Job",
    "ListState",
    "MapState",
    "Processor",
    "Session",
    "Sliding",
    "Stream",
    "Timers",
    "Tumbling",
    "ValueState",
    "Windowed",
    "session",
    "sliding",
    "tumbling",
]

_MODULES = {
    "event_time.windows": ("Session", "Sliding", "Tumbling", "session", "sliding", "tumbling"),
    "job": ("Job", "Stream", "Windowed"),
    "api.processor": ("Processor",),
    "api.state": ("ListState", "MapState", "ValueState"),
    "api.timers": ("Timers",),
}
"""Where the names above are: a job file imports them, and a verb or a worker of Spark's doesn't need them."""
_PLACES = {name: f"anabranch.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_PLACES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
