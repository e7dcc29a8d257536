"""A drain, from the request to the order to each lane."""

from __future__ import annotations

from typing import Literal

from anabranch.model.document import Document

__all__ = ["DrainAccepted", "DrainNotification", "DrainOrder", "DrainProgress"]


class DrainNotification(Document, frozen=True, kw_only=True):
    """A deployment (SEP-31 calls its number ``runId``) is to drain. ``mode``: it takes in what its lanes have "planned"
    by then, or all up to the "latest" record there is now; ``uuid`` tells one wish from another. ``dry`` as in
    :class:`anabranch.protocol.commands.ScaleRequest`."""

    uuid: str
    run_id: int
    mode: Literal["planned", "latest"] = "planned"
    dry: bool = False


class DrainProgress(Document, frozen=True, kw_only=True):
    """How far a drain is that was wished for. Offsets are by the texts of whole SSPs of the streams that the job
    doesn't write itself.

    ``ends``: where these ended when it was accepted, if all up to there is taken in. ``until``: the position of each
    when all has been taken in; None while lanes tell how far they are. ``last``: all lanes are there, and time ends:
    from then on it can't be cancelled.
    """

    notification: DrainNotification
    ends: dict[str, int] = {}
    until: dict[str, int] | None = None
    last: bool = False


class DrainAccepted(Document, frozen=True, kw_only=True):
    """What comes of a drain that is wished for. ``uuid``: of the one that is under way; ``ignored``: why nothing is.
    ``stages``: the open lanes of each stage, in the order in which they drain. ``seconds``: how long it takes, as
    expected, where nothing comes in meanwhile that is to be taken in."""

    deployment: int
    uuid: str
    mode: str = "planned"
    ignored: str = ""
    stages: dict[str, tuple[str, ...]] = {}
    seconds: float = 0.0


class DrainOrder(Document, frozen=True, kw_only=True):
    """How a lane drains, for the notification ``uuid``. ``until``: where it stops to read the streams that the job
    doesn't write itself, by the texts of whole SSPs; None: that isn't known yet: it takes in no more than it has
    planned, and tells where that ends. ``last``: all lanes are there: it ends, with all windows and timers, once its
    other inputs are read to their ends.
    """

    uuid: str = ""
    until: dict[str, int] | None = None
    last: bool = False
