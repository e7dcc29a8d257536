"""The base class of all sections of the settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Section"]


class Section(BaseModel):
    """A section. Sections are immutable, and unknown names in them are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
