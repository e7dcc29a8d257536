"""Gives running Kafka clients a changed user or password, so that they can log in again."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from anabranch import logs
from anabranch.config import KafkaSettings
from anabranch.systems.kafka import clients

__all__ = ["EVERY", "Relogin"]

EVERY = 1.0
"""The seconds between two checks of the files that contain credentials."""

log = logs.get_logger()

_NAMES = ("sasl.username", "sasl.password")


class Relogin:
    """Keeps the credentials of one client up to date, as long as this object exists.

    librdkafka logs in again automatically for each new connection, and whenever the brokers require a login. But it
    always uses the user and the password that the client got when the client was created. If the user or the password
    comes from a file (``${file:PATH}``), this object gives the client the new value within about a second after the
    file has changed. So even a client with an open transaction survives a password change.

    Args:
        client: a producer or consumer of confluent-kafka.
        properties: the properties with which the client was made.
    """

    def __init__(self, settings: KafkaSettings, client: Any, properties: Mapping[str, Any]) -> None:
        self._settings = settings
        self._client = client
        self._used = tuple(str(properties.get(name, "")) for name in _NAMES)
        texts = [settings.sasl_username, settings.sasl_password, *map(settings.client.get, _NAMES)]
        if any("${file:" in (text or "") for text in texts):
            _followed.add(self)

    def renew(self) -> None:
        """Give the client the current credentials, if they have changed."""
        try:
            current = clients.credentials(self._settings)
            if current != self._used:
                self._client.set_sasl_credentials(*current)
                self._used = current
        except Exception as error:  # the file is being replaced, or the client was closed: renew the others
            log.debug("a client couldn't get changed credentials", error=str(error))


class _Followed:
    """The clients of this process whose credentials a thread keeps up to date. A forked process doesn't inherit the
    thread, and can't use its parent's clients. So this object is empty at first in a forked process."""

    def __init__(self) -> None:
        self.begin_anew()
        os.register_at_fork(after_in_child=self.begin_anew)

    def begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._clients: weakref.WeakSet[Relogin] = weakref.WeakSet()
        self._has_thread = False

    def add(self, one: Relogin) -> None:
        with self._lock:
            self._clients.add(one)
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._renew, name="anabranch-relogin", daemon=True).start()

    def _renew(self) -> None:
        while True:
            time.sleep(EVERY)
            self._renew_all()

    def _renew_all(self) -> None:
        with self._lock:
            several = [*self._clients]
        for each in several:
            each.renew()


_followed = _Followed()
