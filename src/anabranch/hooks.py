"""The former name of :mod:`anabranch.api.hooks`. Job files of deployments from before the first release can still
import it.
"""

from anabranch.api.hooks import DrainedTask

__all__ = ["DrainedTask"]
