"""The former name of :mod:`anabranch.api.job` and related modules, kept for job files of deployments from before the
first release.
"""

from anabranch.api.job import Job
from anabranch.api.stream import Stream
from anabranch.api.table import Table
from anabranch.api.windowed import Windowed

__all__ = ["Job", "Stream", "Table", "Windowed"]
