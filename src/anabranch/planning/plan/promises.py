"""What an output promises, and which outputs can be written together."""

from __future__ import annotations

__all__ = ["AT_LEAST_ONCE", "EXACTLY_ONCE", "kind"]

EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once; can be written twice"


def kind(system: str, at_least_once: bool) -> str:
    """What the outputs of one group have in common."""
    return f"{system}-at-least-once" if at_least_once else system
