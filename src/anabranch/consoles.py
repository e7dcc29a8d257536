"""Makes consoles that print text unchanged. All output that rich draws goes to such a console. Import this module
only where something is drawn: importing rich takes as long as everything else that a short verb does.
"""

from __future__ import annotations

from rich.console import Console  # noqa: TID251

__all__ = ["Console", "plain"]


def plain(*, stderr: bool = False, width: int | None = None, record: bool = False, highlight: bool = True) -> Console:
    """A console for text that can contain anything, such as ``[systems.kafka]``, ``[/x]`` or ``delays:100:7``. By
    default, rich would interpret parts of such text as markup and emoji, even in the cells of tables. The arguments are
    those of rich's ``Console``.
    """
    return Console(stderr=stderr, width=width, record=record, highlight=highlight, markup=False, emoji=False)
