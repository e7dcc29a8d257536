"""A stream divided into windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from anabranch.api import arguments
from anabranch.api.arguments import caller
from anabranch.errors import GraphError
from anabranch.event_time import windows
from anabranch.event_time.windows import Session, Window

if TYPE_CHECKING:
    from anabranch.api.stream import Stream

__all__ = ["Windowed"]


class _Then(Protocol):
    """The function that adds an operator to a stream."""

    def __call__(self, kind: str, args: dict[str, Any], name: str | None = None) -> Stream: ...


class Windowed:
    """A stream divided into windows, as returned by :meth:`Stream.window`. Only ``agg`` can follow."""

    def __init__(self, then: _Then, window: Window, time: str, on_late: str) -> None:
        self._then = then
        self._window = window
        self._said = {
            name: said for name, said, usual in (("time", time, "event"), ("on_late", on_late, "drop")) if said != usual
        }

    def agg(
        self,
        *,
        by: str | list[str] | None = None,
        emit: Literal["on_close", "on_update"] = "on_close",
        name: str | None = None,
        **aggregates: str,
    ) -> Stream:
        """Compute aggregates for each combination of stage key, window and, with ``by``, values of the ``by`` columns.

        The result's columns are the key, ``by``, ``window_start`` and ``window_end`` (timestamps; the end is
        exclusive), and the aggregates.

        Args:
            by: further columns to group by, in addition to the stage key.
            emit: ``"on_close"`` emits one row for each combination of stage key, window and values of ``by``. The row
                is emitted when the watermark (or, with ``time="processing"``, the processing time) has passed the
                window's end. ``"on_update"`` emits an updated row for every such combination that a batch changed.
                Sessions don't support ``"on_update"``.
            name: the operator's name, under which its state is kept.
            aggregates: result columns and their SQL aggregates, such as ``flights="count(*)"``.

        Raises:
            GraphError: an argument is invalid, there are no aggregates, or ``emit`` is ``"on_update"`` for sessions.

        Example:
            ```python
            flights.window(tumbling("1 hour")).agg(by="dest", flights="count(*)", delay="avg(dep_delay)")
            ```
            One of its rows, as JSON: ``{"tailnum": "N1", "dest": "SFO", "window_start": "2013-01-01T10:00:00.000000Z",
            "window_end": "2013-01-01T11:00:00.000000Z", "flights": 2, "delay": 7.5}``.
        """
        if emit not in ("on_close", "on_update"):
            raise GraphError(f"agg at {caller()} has emit={emit!r}", 'use emit="on_close" or emit="on_update"')
        if emit == "on_update" and isinstance(self._window, Session):
            raise GraphError(
                f'agg at {caller()} has emit="on_update", but the end of a session isn\'t known until it is over',
                'use emit="on_close": each session then gives one row, when it has ended',
            )
        window = {**windows.to_builtins(self._window), **self._said}
        args = arguments.aggregation(by, aggregates)
        return self._then("agg", {**args, "emit": emit, "window": window}, name)
