"""A module for job files from before the first release, which deployments still have: its contents are now in
:mod:`anabranch.api`.
"""

from anabranch.api.hooks import DrainedTask

__all__ = ["DrainedTask"]
