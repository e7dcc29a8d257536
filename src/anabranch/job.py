"""The former place of a module of :mod:`anabranch.api`. Deployments from before the first release may still have job
files that import it.
"""

from anabranch.api.job import Job
from anabranch.api.stream import Stream
from anabranch.api.table import Table
from anabranch.api.windowed import Windowed

__all__ = ["Job", "Stream", "Table", "Windowed"]
