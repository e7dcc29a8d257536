"""The former name of :mod:`anabranch.api.hooks`, kept for job files of deployments from before the first release."""

from anabranch.api.hooks import DrainedTask

__all__ = ["DrainedTask"]
