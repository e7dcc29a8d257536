"""The control record that a lane writes with each batch, for the readers of an intermediate stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.errors import UnsupportedFormatError

_VERSION = 1


@dataclass(frozen=True)
class Control:
    """What a lane reports about itself to the readers of its output.

    Attributes:
        watermark: the lane's watermark, in Unix ms, as it was before the record's batch; None if it wasn't known
            yet. After this record, the log isn't expected to contain rows of the lane that are older than the
            watermark.
        predecessors: the closed lanes that this lane replaces. Their own control records no longer count.
        beside: the lane's co-writers and the lane itself. Each of them is mapped to the closed lanes that it replaces.
            The record names the co-writers, too, because a co-writer without records may write nothing for a long time.
        open: False if the lane writes nothing after this record.
        idle: whether the lane has nothing to read, and therefore must not hold the watermark back.
    """

    lane: str
    watermark: int | None
    predecessors: tuple[str, ...] = ()
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    open: bool = True
    idle: bool = False

    def to_builtins(self) -> dict[str, Any]:
        """The form in which the record is stored in the log."""
        return {
            "version": _VERSION,
            "lane": self.lane,
            "watermark": self.watermark,
            "predecessors": list(self.predecessors),
            "beside": {lane: list(before) for lane, before in self.beside.items()},
            "open": self.open,
            "idle": self.idle,
        }


def from_builtins(value: Mapping[str, Any], where: str) -> Control:
    """The inverse of :meth:`Control.to_builtins`. Unknown fields are ignored.

    Raises:
        UnsupportedFormatError: the value has an unknown version, or isn't a control record. The message names
            ``where``.
    """
    if value.get("version") != _VERSION:
        raise UnsupportedFormatError(
            f"a control record in {where} has format version {value.get('version')}; this anabranch knows {_VERSION}",
            "upgrade anabranch; nothing was changed",
        )
    try:
        return Control(
            lane=str(value["lane"]),
            watermark=None if value["watermark"] is None else int(value["watermark"]),
            predecessors=tuple(value["predecessors"]),
            beside={lane: tuple(before) for lane, before in value["beside"].items()},
            open=bool(value["open"]),
            idle=bool(value.get("idle", False)),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnsupportedFormatError(
            f"a control record in {where} is damaged: {error!r}", "restore the stream's manifest from a backup"
        ) from error
