"""Durations in settings, such as ``"10 seconds"``: they are checked when settings are read, and kept as written."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from anabranch.event_time import durations

__all__ = ["Duration", "PositiveDuration"]


def _checked(text: str) -> str:
    durations.parse(text)
    return text


def _positive(text: str) -> str:
    if not durations.parse(text):
        raise ValueError("it must be longer than 0")
    return text


Duration = Annotated[str, AfterValidator(_checked)]
PositiveDuration = Annotated[str, AfterValidator(_positive)]
