"""Which operator an error of Spark's is about, from the piece of SQL or the line that Spark points at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anabranch.errors import OperatorError
from anabranch.model.graph import Node

_SQL = re.compile(r"== SQL[^\n]*==\n(.+?)\n[ \t]*\^+", re.DOTALL)
_DATAFRAME = re.compile(r"== DataFrame ==\n.*? was called from\n([^\n]+)", re.DOTALL)
_CURE = "write it so that no row can fail (try_cast, try_divide, try_element_at), or filter such rows before"

Ranges = Mapping[str, tuple[int, int]]


def explained(text: str, first: str, nodes: Sequence[Node], ranges: Ranges) -> OperatorError | None:
    """What to tell of an error in SQL or in a ``transform``; None when Spark points at none.

    Args:
        text: all that Spark says.
        first: the reason, in one line.
        nodes: the operators of the lane.
        ranges: by SSP, the first offset of the batch and the one after the last.
    """
    sql = [found.strip() for found in _SQL.findall(text)]
    lines = [found.strip() for found in _DATAFRAME.findall(text)]
    blamed = next((n for fragment in sql for n in nodes if any(fragment in text for text in _texts(n.args))), None)
    if blamed is None and (sql or lines):
        transforms = [node for node in nodes if node.kind == "transform"]
        blamed = transforms[0] if len(transforms) == 1 else None
    if blamed is None:
        return None
    at = f" at {lines[0]}" if lines and not sql else ""
    read = ", ".join(f"offsets {a} to {b - 1} of {ssp}" for ssp, (a, b) in sorted(ranges.items()) if b > a)
    on = f", on {read}" if read else ""
    return OperatorError(f"{blamed.kind} {blamed.name!r} ({blamed.where}): {first}{at}{on}", _CURE)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
