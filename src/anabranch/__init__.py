"""anabranch: long-lived stream-processing jobs on Spark that change while they run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.api.job import Job
    from anabranch.api.processor import Processor
    from anabranch.api.state import ListState, MapState, ValueState
    from anabranch.api.stream import Stream
    from anabranch.api.timers import Timers
    from anabranch.api.windowed import Windowed
    from anabranch.event_time.windows import Session, Sliding, Tumbling, session, sliding, tumbling

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
    "api.job": ("Job",),
    "event_time.windows": ("Session", "Sliding", "Tumbling", "session", "sliding", "tumbling"),
    "api.processor": ("Processor",),
    "api.state": ("ListState", "MapState", "ValueState"),
    "api.stream": ("Stream",),
    "api.timers": ("Timers",),
    "api.windowed": ("Windowed",),
}
"""The modules that define the public names. Each module is imported only when one of its names is first used, because
most verbs of the CLI, and Spark's workers, don't need all of them."""
_PLACES = {name: f"anabranch.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_PLACES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
