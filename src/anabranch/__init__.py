"""anabranch: long-lived stream-processing jobs on Spark that change while they run."""

from anabranch.event_time.windows import Session, Sliding, Tumbling, session, sliding, tumbling
from anabranch.job import Job, Stream, Windowed
from anabranch.keyed.processor import Processor
from anabranch.keyed.state import ListState, MapState, ValueState
from anabranch.keyed.timers import Timers

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
