"""What an output promises, and which outputs can be written together."""

from __future__ import annotations

__all__ = ["AT_LEAST_ONCE", "EXACTLY_ONCE", "kind"]

EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once; can be written twice"


def kind(system: str, at_least_once: bool) -> str:
    """The kind of an output: its promise, combined with ``system``, which is a system of streams or a kind of table.
    Stateless outputs of different kinds can't be in one group.
    """
    return f"{system}-at-least-once" if at_least_once else system
