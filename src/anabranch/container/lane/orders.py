"""What a lane has been told by the container and the coordinator, and what it waits for."""

from __future__ import annotations

import threading

from anabranch.messages import Draining

__all__ = ["Orders"]


class Orders:
    """Thread-safe: the container gives them, and the lane's own thread follows them."""

    def __init__(self) -> None:
        self.drain: Draining | None = None
        self.stops = threading.Event()
        self.closes = threading.Event()
        self.leaves = threading.Event()
        self.at_once = threading.Event()
        self.now = threading.Event()
        self.upstream_ended = threading.Event()
        self.folder_known = threading.Event()
        self._news = threading.Event()

    def stop(self, at_once: bool) -> None:
        if at_once:
            self.at_once.set()
        self.leaves.set()
        self.stops.set()
        self._news.set()

    def close(self, now: bool) -> None:
        if now:
            self.now.set()
        self.closes.set()
        self.stops.set()
        self._news.set()

    def drain_by(self, order: Draining | None) -> None:
        if order != self.drain:
            self.drain = order
            self._news.set()

    def acknowledge(self, upstream_ended: bool) -> None:
        self.folder_known.set()
        if upstream_ended and not self.upstream_ended.is_set():
            self.upstream_ended.set()
            self._news.set()

    def pause(self, seconds: float) -> None:
        """Wait so long, or until something is ordered."""
        self._news.wait(seconds)
        self._news.clear()
