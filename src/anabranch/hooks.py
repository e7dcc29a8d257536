"""Keeps job files from before the first release working, which deployments may still have. The contents of this module
are now in :mod:`anabranch.api`.
"""

from anabranch.api.hooks import DrainedTask

__all__ = ["DrainedTask"]
