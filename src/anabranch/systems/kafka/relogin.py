"""Gives running clients of Kafka a changed user or password, so that they can log in again."""

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
"""The seconds between two looks at the files that contain credentials."""

log = logs.get_logger()

_NAMES = ("sasl.username", "sasl.password")
_lock = threading.Lock()
_followed: weakref.WeakSet[Relogin] = weakref.WeakSet()
_pid = 0
"""The process that has a thread for ``_followed``. A forked process has no thread, and its parent's clients are of no
use to it.
"""


class Relogin:
    """Keeps the credentials of one client up to date, as long as this object exists.

    librdkafka logs in again by itself, for each new connection and when the brokers require it, but with the user and
    the password that the client got when it was made. If these come from files (``${file:PATH}``), the client gets new
    ones within a second after a file has changed. So a client whose transaction is open needn't be given up when a
    password is rotated.

    Args:
        client: a producer or consumer of confluent-kafka.
        properties: those with which the client was made.
    """

    def __init__(self, settings: KafkaSettings, client: Any, properties: Mapping[str, Any]) -> None:
        self._settings = settings
        self._client = client
        self._used = _credentials(properties)
        texts = [settings.sasl_username, settings.sasl_password, *map(settings.client.get, _NAMES)]
        if any("${file:" in (text or "") for text in texts):
            _follow(self)

    def renew(self) -> None:
        """Give the client the current credentials, if they have changed."""
        try:
            current = _credentials(clients.librdkafka(self._settings))
            if current != self._used:
                self._client.set_sasl_credentials(*current)
                self._used = current
        except Exception as error:  # the file is just being replaced, or the client was closed: the others go on
            log.debug("a client couldn't get changed credentials", error=str(error))


def _credentials(properties: Mapping[str, Any]) -> tuple[str, str]:
    user, password = (str(properties.get(name, "")) for name in _NAMES)
    return user, password


def _follow(one: Relogin) -> None:
    global _pid, _followed
    with _lock:
        if _pid != os.getpid():
            _pid, _followed = os.getpid(), weakref.WeakSet()
            threading.Thread(target=_renew, name="anabranch-relogin", daemon=True).start()
        _followed.add(one)


def _renew() -> None:
    while True:
        time.sleep(EVERY)
        _renew_all()


def _renew_all() -> None:
    with _lock:
        several = [*_followed]
    for each in several:
        each.renew()
