"""What all sections of the settings have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Section"]


class Section(BaseModel):
    """A section. It is immutable, and an unknown name in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
