"""A module of a package in the job's folder."""

from __future__ import annotations

import threading
from typing import Any

LOCK = threading.Lock()


def deep(message: dict[str, Any]) -> dict[str, Any]:
    with LOCK:
        return {**message, "how": "deep"}
