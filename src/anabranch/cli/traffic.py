"""Shows the traffic between racks, as text and as pictures in a page."""

from __future__ import annotations

from html import escape
from pathlib import Path

from rich.table import Table

from anabranch.consoles import Console
from anabranch.errors import UsageError
from anabranch.model.traffic import Traffic
from anabranch.planning.assignment.racks import matrix
from anabranch.planning.assignment.racks.matrix import Matrix

__all__ = ["page", "show", "write"]

_STYLE = "body{font-family:sans-serif;margin:2em}figure{display:inline-block;margin:0 3em 1em 0}pre{line-height:1.2}"


def show(console: Console, before: Traffic | None, after: Traffic | None, why_not: str = "") -> None:
    """Print how many partitions each rack reads from each rack, before and after a change, and how many are read across
    racks.

    Args:
        before: the traffic before the change; None for a job that hasn't been started yet.
        after: the traffic after the change. If racks aren't known, this is None, and no traffic is printed.
        why_not: why racks are ignored when tasks are placed. Printed first, unless it is empty.
    """
    if why_not:
        console.print(f"racks are ignored when tasks are placed: {why_not}")
    if after is None:
        return
    for title, found in _titled(before, after):
        console.print(_table(title, found))
    if before is not None:
        console.print(f"partitions read across racks: {before.across} → {after.across} of {after.total}")
    else:
        console.print(f"partitions read across racks: {after.across} of {after.total}")


def page(title: str, text: str, before: Traffic | None, after: Traffic | None) -> str:
    """An HTML page with a plan's text and, if racks are known, pictures of the traffic."""
    figures = [
        f"<figure><figcaption>{escape(caption)}: {found.across} of {found.total} across racks</figcaption>"
        f"{matrix.svg(_matrix(found))}</figure>"
        for caption, found in _titled(before, after)
    ]
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style></head>',
            f"<body><h1>{escape(title)}</h1>",
            *figures,
            f"<pre>{escape(text)}</pre></body></html>",
            "",
        ]
    )


def write(path: Path, text: str) -> None:
    """Write a file. Raises UsageError if it can't be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}", "name a file in an existing folder") from error


def _titled(before: Traffic | None, after: Traffic | None) -> list[tuple[str, Traffic]]:
    if before is None:
        return [] if after is None else [("partitions read, by rack", after)]
    now = ("partitions read now, by rack", before)
    return [now] if after is None or after == before else [now, ("partitions read after the change, by rack", after)]


def _matrix(found: Traffic) -> Matrix:
    readers = sorted(found.read)
    sources = sorted({*readers, *(source for row in found.read.values() for source in row)})
    weights = {(source, reader): count for reader, row in found.read.items() for source, count in row.items()}
    return Matrix(sources, readers, dict(weights))


def _table(title: str, found: Traffic) -> Table:
    shape = _matrix(found)
    table = Table(title=f"{title}: readers in rows, sources in columns", title_justify="left")
    for column in ("", *shape.sources):
        table.add_column(column, justify="right")
    for reader in shape.readers:
        table.add_row(reader, *(f"{shape.weights.get((source, reader), 0):g}" for source in shape.sources))
    return table
