"""Notices inputs whose newest records can't be read because another producer's transaction is open."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from anabranch import logs
from anabranch.model.ssp import SSP
from anabranch.systems.findings import JavaClasses, OpenTransaction
from anabranch.systems.systems import Systems

__all__ = ["BlockedInputs"]

log = logs.get_logger()

_AFTER = 10.0
"""How many seconds a lane must have waited for the same transaction before a warning is given. Most transactions end
sooner."""


class BlockedInputs:
    """Watches the inputs of a lane. All look-ups are made in a separate thread, because brokers may be slow to answer.

    Args:
        lane: the lane's id, for the log.
        ssps: the inputs that other programs write.
        java: see :data:`anabranch.systems.findings.JavaClasses`.
    """

    def __init__(self, lane: str, systems: Systems, ssps: Iterable[SSP], java: JavaClasses) -> None:
        self._lane = lane
        self._systems = systems
        self._ssps = tuple(ssp for ssp in ssps if systems.named(ssp.system).transactional)
        self._java = java
        self._since: dict[SSP, tuple[int, float]] = {}
        """For each blocked input (see :meth:`_blocked`): the input's end offset, and the time of the first check that
        found the input blocked at this offset."""
        self._told: dict[SSP, str] = {}
        self._thread: threading.Thread | None = None
        self.warnings: tuple[str, ...] = ()
        """A warning for each input in which the lane has waited long enough for the same open transaction."""

    def look(self, positions: Mapping[str, int], now: float) -> None:
        """Start a check of the inputs in the background, unless the previous check is still running. The check updates
        :attr:`warnings` when it ends.

        Args:
            positions: the lane's positions, by SSP in text form.
            now: the time in seconds, on a clock that never goes back.
        """
        if not self._ssps or (self._thread is not None and self._thread.is_alive()):
            return
        self._thread = threading.Thread(
            target=self.update, args=(dict(positions), now), name=f"inputs of {self._lane}", daemon=True
        )
        self._thread.start()

    def update(self, positions: Mapping[str, int], now: float) -> None:
        """Check the inputs, and update :attr:`warnings`. If the check fails, the warnings stay as they are. For the
        arguments, see :meth:`look`."""
        try:
            blocked = self._blocked(positions)
            self._since = {ssp: self._first_seen(ssp, end, now) for ssp, end in blocked.items()}
            due = [ssp for ssp, (_, since) in self._since.items() if now - since >= _AFTER]
            for ssp in self._told.keys() - due:
                log.info("an input can be read again", lane=self._lane, ssp=str(ssp))
            self._told = {ssp: self._told.get(ssp) or self._described(ssp) for ssp in due}
            self.warnings = tuple(text for text in self._told.values() if text)
        except Exception as error:  # nothing depends on a warning
            log.debug("open transactions couldn't be looked for", lane=self._lane, error=str(error))

    def _blocked(self, positions: Mapping[str, int]) -> dict[SSP, int]:
        """The blocked inputs, with their end offsets. An input is blocked if the lane has read it to its end offset,
        and further records exist that readers can't see yet because their transactions are open.
        """
        by_stream: dict[tuple[str, str], list[SSP]] = defaultdict(list)
        for ssp in self._ssps:
            by_stream[ssp.system, ssp.stream].append(ssp)
        found = {}
        for (name, stream), ssps in by_stream.items():
            system = self._systems.named(name)
            last, ends = system.high_watermarks(stream), system.ends(stream, [ssp.partition for ssp in ssps])
            for ssp in ssps:
                end = ends.get(ssp.partition, 0)
                if positions.get(str(ssp), -1) >= end and last.get(ssp.partition, 0) > end:
                    found[ssp] = end
        return found

    def _first_seen(self, ssp: SSP, end: int, now: float) -> tuple[int, float]:
        before = self._since.get(ssp)
        if before is not None and before[0] == end:
            return before
        self._told.pop(ssp, None)  # another transaction
        return end, now

    def _described(self, ssp: SSP) -> str:
        found = self._systems.named(ssp.system).open_transaction(ssp.stream, ssp.partition, self._java)
        if found is None:
            return ""
        text = _text(ssp, found)
        log.warning(text, lane=self._lane)
        return text


def _text(ssp: SSP, found: OpenTransaction) -> str:
    since = "" if found.since is None else f", since {datetime.fromtimestamp(found.since, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return (
        f"{ssp} can't be read from offset {found.offset} on ({found.behind:,} offsets): a transaction of "
        f"{found.producer} is open there{since}; {found.cure}"
    )
