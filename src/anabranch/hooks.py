"""The former name of :mod:`anabranch.api.hooks`. It is kept because the job files of deployments from before the first
release still import it."""

from anabranch.api.hooks import DrainedTask

__all__ = ["DrainedTask"]
