"""Durations in settings, such as ``"10 seconds"``: they are checked when settings are read, and kept as written."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

from anabranch.event_time import durations

__all__ = ["STORED", "Duration", "PositiveDuration"]

STORED = {"stored": True}
"""The validation context for settings with which a job was started. In this context, a duration of 0 is accepted,
because older versions allowed it.
"""


def _checked(text: str) -> str:
    durations.parse(text)
    return text


def _positive(text: str, info: ValidationInfo) -> str:
    if not durations.parse(text) and info.context != STORED:
        raise ValueError("it must be longer than 0")
    return text


Duration = Annotated[str, AfterValidator(_checked)]
PositiveDuration = Annotated[str, AfterValidator(_positive)]
