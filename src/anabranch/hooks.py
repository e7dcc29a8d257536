"""The former place of a module of :mod:`anabranch.api`. Deployments from before the first release may still have job
files that import it.
"""

from anabranch.api.hooks import DrainedTask

__all__ = ["DrainedTask"]
