"""How much each rack reads from every rack, as numbers and as a picture."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape

from anabranch.planning.assignment.racks.problem import Answer, Partition, Problem

__all__ = ["Matrix", "matrix", "svg"]

_CELL, _LEFT, _TOP = 56, 120, 72


@dataclass(frozen=True)
class Matrix:
    """How much each of the ``readers`` reads from each of the ``sources``, all of them racks. ``weights`` maps pairs
    (source, reader) to weights. Missing pairs have the weight 0.
    """

    sources: list[str]
    readers: list[str]
    weights: dict[tuple[str, str], int | float]


def matrix(problem: Problem, answer: Answer) -> Matrix | None:
    """How much the active tasks and standbys in each rack read from every rack; None if racks aren't known.

    If a partition has a replica in the reader's own rack, the partition is read from this rack. Otherwise, it is read
    from the rack of its first replica, which counts as the leader.
    """
    if not answer.racks_used:
        return None
    racks = {container.id: container.rack or "" for container in problem.containers}
    weights: Counter[tuple[str, str]] = Counter()

    def read(partitions: tuple[Partition, ...], rack: str) -> None:
        for one in partitions:
            source = rack if rack in one.racks else one.racks[0] or ""
            weights[source, rack] += one.weight  # type: ignore[assignment]

    for task in problem.tasks:
        read(task.partitions, racks[answer.active[task.name]])
        for container in answer.standby[task.name]:
            read(task.state_partitions, racks[container])
    readers = sorted(set(racks.values()))
    return Matrix(sorted({*readers, *(source for source, _ in weights)}), readers, dict(weights))


def svg(found: Matrix) -> str:
    """A picture with a row for each rack that reads, and a column for each rack that is read from. Cells with higher
    weights are darker; cells for traffic across racks are orange."""
    most = max(found.weights.values(), default=0) or 1
    width, height = _LEFT + _CELL * len(found.sources) + 8, _TOP + _CELL * len(found.readers) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif"',
        'font-size="13" text-anchor="middle">',
        "<title>Traffic by rack: columns are read from, rows read</title>",
        f'<text x="{_LEFT - 8}" y="{_TOP - 32}" text-anchor="end">read from →</text>',
    ]
    for column, source in enumerate(found.sources):
        parts.append(f'<text x="{_LEFT + _CELL * column + _CELL // 2}" y="{_TOP - 10}">{escape(source)}</text>')
    for row, reader in enumerate(found.readers):
        top = _TOP + _CELL * row
        parts.append(f'<text x="{_LEFT - 8}" y="{top + _CELL // 2 + 4}" text-anchor="end">{escape(reader)}</text>')
        for column, source in enumerate(found.sources):
            weight = found.weights.get((source, reader), 0)
            left = _LEFT + _CELL * column
            colour = "#2b7a78" if source == reader else "#d9631e"
            parts.append(
                f'<rect x="{left}" y="{top}" width="{_CELL - 2}" height="{_CELL - 2}" fill="{colour}" '
                f'fill-opacity="{0.08 + 0.62 * weight / most:.2f}"/>'
                f'<text x="{left + _CELL // 2 - 1}" y="{top + _CELL // 2 + 4}">{weight:g}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"
