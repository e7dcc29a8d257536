"""Durations in settings, such as ``"10 seconds"``: they are checked when settings are read, and kept as written."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from anabranch.event_time import durations

__all__ = ["Duration"]


def _checked(text: str) -> str:
    durations.parse(text)
    return text


Duration = Annotated[str, AfterValidator(_checked)]
