"""The former name of :mod:`anabranch.api.hooks`. The module is kept for job files of deployments from before the first
release, which may import it.
"""

from anabranch.api.hooks import DrainedTask

__all__ = ["DrainedTask"]
