"""The former name of :mod:`anabranch.api.job` and related modules. It is kept because the job files of deployments from
before the first release still import it.
"""

from anabranch.api.job import Job
from anabranch.api.stream import Stream
from anabranch.api.table import Table
from anabranch.api.windowed import Windowed

__all__ = ["Job", "Stream", "Table", "Windowed"]
