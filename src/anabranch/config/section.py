"""The base class of all sections of the settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Section"]


class Section(BaseModel):
    """An immutable section. An unknown name is an error, unless the section's class allows further names."""

    model_config = ConfigDict(extra="forbid", frozen=True)
