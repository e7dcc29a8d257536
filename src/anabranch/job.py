"""Keeps job files from before the first release working, which deployments may still have. The contents of this module
are now in :mod:`anabranch.api`.
"""

from anabranch.api.job import Job
from anabranch.api.stream import Stream
from anabranch.api.table import Table
from anabranch.api.windowed import Windowed

__all__ = ["Job", "Stream", "Table", "Windowed"]
