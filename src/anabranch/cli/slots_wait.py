"""Tells the coordinator that a container is waiting for task slots of a Spark cluster."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Self

import msgspec

from anabranch.coordinator.api.client import Client
from anabranch.errors import AnabranchError
from anabranch.protocol.container import Registration

__all__ = ["SlotsWait"]

_AFTER = 60.0
"""How many seconds a cluster has to start an application and its first executor before the coordinator is told that
the container is waiting.
"""
EVERY = 2.0


class SlotsWait:
    """Use this object in a ``with`` block in which Spark starts. If the cluster gives this process no executor within
    ``after`` seconds, the coordinator is told so until :meth:`end` is called or the block ends.

    Without this, a change to another version could wait forever: the former version's lanes would keep the cluster's
    cores until the new containers are ready, and the new containers would wait for these cores. And the launcher would
    take a container that waits for a failed one.

    Args:
        on_cluster: whether Spark runs tasks on a cluster; if not, nothing is told.
        me: the registration with which the container will ask for a seat.
    """

    def __init__(self, client: Client, me: Registration, on_cluster: bool, after: float = _AFTER) -> None:
        self._client = client
        self._me = msgspec.structs.replace(me, seat=None, waits_for_slots=True, warm=False)
        self._after = after
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waiting for task slots", daemon=True)
        self._on_cluster = on_cluster

    def __enter__(self) -> Self:
        if self._on_cluster:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop telling the coordinator. A message that is being sent may still arrive."""
        self._over.set()

    def _run(self) -> None:
        if self._over.wait(self._after):
            return
        while not self._over.wait(EVERY):
            with suppress(AnabranchError):  # the container's own registration will meet the error, and report it
                self._client.register(self._me)
