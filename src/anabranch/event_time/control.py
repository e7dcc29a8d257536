"""The control record that a lane writes in band, into every partition of an intermediate stream, with each batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.errors import UnsupportedFormatError

_VERSION = 1


@dataclass(frozen=True)
class Control:
    """What a lane says of itself to those who read its output.

    ``watermark`` (Unix ms; None: not known yet) is the lane's after the batch before the one it travels with, so
    none of the rows after it is older, but for late ones. ``predecessors`` are the lanes that it goes on from;
    ``beside`` has all lanes that write the stream together with it, itself included, each with its own
    predecessors: one of them may have nothing to write for long. ``open`` false: it writes no more. ``idle``: it has
    nothing to read, and wants to hold nobody back.
    """

    lane: str
    watermark: int | None
    predecessors: tuple[str, ...] = ()
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    open: bool = True
    idle: bool = False

    def to_builtins(self) -> dict[str, Any]:
        """As it stands in the log."""
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
    """The inverse; fields that it doesn't know are passed over.

    Raises:
        UnsupportedFormatError: of another version, or not a control record; names ``where``.
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
