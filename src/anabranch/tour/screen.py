"""Prints the output of the tour, on a terminal or to a file. Only a line with an address can exceed 80 columns."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from anabranch import consoles

__all__ = ["Screen"]

_WIDEST = 80
_FIRST, _LAST = 8, 3
_BAR = 28


class Screen:
    """Prints the tour. With ``step``, the tour waits for Enter before each command, until standard input ends."""

    def __init__(self, step: bool = False) -> None:
        console = consoles.plain(highlight=False)
        self._console = consoles.plain(highlight=False, width=min(_WIDEST, console.width))
        self._width = self._console.width
        self._step = step
        self._number = 0
        self._began = time.monotonic()

    def chapter(self, title: str, text: str) -> None:
        """Print the heading and the introduction of a part of the tour."""
        self._number += 1
        self._console.print()
        seconds = f"{time.monotonic() - self._began:.0f} s"
        self._print(f"{self._number}. {title}".ljust(self._width - len(seconds)) + seconds, "bold")
        self.say(text)

    def say(self, text: str) -> None:
        for line in textwrap.wrap(text, self._width - 3):
            self._print(f"   {line}")

    def link(self, text: str, address: str) -> None:
        """Print some text and, on a separate line that isn't wrapped, an address."""
        self.say(text)
        self._console.print(Text(f"   {address}", "cyan"), soft_wrap=True)

    def command(self, command: str) -> None:
        """Show a command that is about to run. With ``step``, wait for Enter."""
        for number, line in enumerate(textwrap.wrap(command, self._width - 6, subsequent_indent="  ")):
            self._print(f"   {'$' if not number else ' '} {line}", "bold green")
        if self._step:
            try:
                self._console.input(Text("   press Enter to run it ", "dim"))
            except EOFError:  # nobody can press Enter
                self._step = False
            if not self._step or not sys.stdin.isatty():
                self._console.print()  # without a terminal, no Enter has ended the line

    def output(self, text: str) -> None:
        """Print a command's output without lines that contain neither letters nor digits. If there are many lines, only
        the first few and the last few are printed. Long lines are cut."""
        lines = [line.rstrip() for line in text.splitlines() if any(map(str.isalnum, line))]
        if len(lines) > _FIRST + _LAST + 1:
            left_out = len(lines) - _FIRST - _LAST
            lines[_FIRST:-_LAST] = [f"... {left_out} more lines"]
        for line in lines:
            self._print(f"     {line}", "dim")

    def gauge(self, lag: int, most: int, text: str) -> None:
        """Show how many records are waiting, as a number and as a bar that is full at ``most`` records."""
        bar = "#" * round(_BAR * lag / max(most, 1))
        self._print(f"     lag {lag:>6,} {bar:<{_BAR}} {text}")

    def table(self, rows: Sequence[tuple[str, str, bool]]) -> None:
        """Print a table. Each row consists of a promise, a measurement, and whether they agree."""
        table = Table(width=self._width, show_lines=True)
        table.add_column("promised", ratio=4)
        table.add_column("measured", ratio=5)
        table.add_column("", width=5)
        for promised, measured, agrees in rows:
            table.add_row(Text(promised), Text(measured), Text("right" if agrees else "WRONG", "" if agrees else "red"))
        self._console.print()
        self._console.print(table)

    def _print(self, line: str, style: str = "") -> None:
        encoding = self._console.encoding  # not every terminal can show all characters
        line = line.encode(encoding, "replace").decode(encoding)
        self._console.print(Text(line, style), overflow="ellipsis", no_wrap=True)
