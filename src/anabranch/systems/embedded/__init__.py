"""The embedded system: a durable, partitioned, ordered log of Arrow files in a folder. Only ``spark.py`` imports
PySpark."""

from anabranch.systems.embedded.append import Appender, append
from anabranch.systems.embedded.layout import StreamInfo
from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.manifest import Entry, Segment, Tail, WriterMark
from anabranch.systems.embedded.segments import SegmentRef, SegmentWriter, Slice, read_slice
from anabranch.systems.embedded.system import EmbeddedSystem
from anabranch.systems.embedded.writer import LaneWriter, fence, foreign_writers

__all__ = [
    "Appender",
    "EmbeddedSystem",
    "Entry",
    "LaneWriter",
    "Log",
    "Segment",
    "SegmentRef",
    "SegmentWriter",
    "Slice",
    "StreamInfo",
    "Tail",
    "WriterMark",
    "append",
    "fence",
    "foreign_writers",
    "read_slice",
]
