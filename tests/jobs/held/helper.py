"""A module beside the job file, with a lock and a logger of its own."""

from __future__ import annotations

import logging
import threading
from typing import Any

print("helper is imported")

LOG = logging.getLogger(__name__)
LOCK = threading.RLock()
SEEN: dict[Any, int] = {}


def counted(message: dict[str, Any]) -> dict[str, Any]:
    with LOCK:
        SEEN[message["n"]] = SEEN.get(message["n"], 0) + 1
        LOG.debug("counted")
        return {**message, "how": message["how"] if message["how"] == "udf" else "helper"}
