"""anabranch: long-lived stream-processing jobs on Spark that change while they run."""

from anabranch.event_time.windows import Tumbling, tumbling
from anabranch.job import Job, Stream, Windowed

__all__ = ["Job", "Stream", "Tumbling", "Windowed", "tumbling"]
