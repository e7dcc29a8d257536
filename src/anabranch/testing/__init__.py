"""Lets users test their jobs: :func:`run` runs a job on lists of rows, and returns the rows that the job wrote."""

from anabranch.testing.messages import Message
from anabranch.testing.parts import BATCH, DRAIN, EXPAND, KILL, REWIND, SCALE
from anabranch.testing.result import Pending, Record, Result
from anabranch.testing.running import run

__all__ = ["BATCH", "DRAIN", "EXPAND", "KILL", "REWIND", "SCALE", "Message", "Pending", "Record", "Result", "run"]
