"""anabranch: long-lived stream-processing jobs on Spark that change while they run."""

from anabranch.job import Job, Stream

__all__ = ["Job", "Stream"]
