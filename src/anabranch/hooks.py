"""A name for job files of before the first release, which deployments keep: it is in :mod:`anabranch.api` now."""

from anabranch.api.hooks import DrainedTask

__all__ = ["DrainedTask"]
