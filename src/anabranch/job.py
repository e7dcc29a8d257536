"""A name for job files of before the first release, which deployments keep: it is in :mod:`anabranch.api` now."""

from anabranch.api.job import Job
from anabranch.api.stream import Stream
from anabranch.api.table import Table
from anabranch.api.windowed import Windowed

__all__ = ["Job", "Stream", "Table", "Windowed"]
