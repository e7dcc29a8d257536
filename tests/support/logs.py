"""What was logged, whatever a test before has done to the level."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from structlog.testing import capture_logs


@contextmanager
def captured() -> Iterator[list[Any]]:
    """The lines of all levels, each as its fields."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("debug"))
    try:
        with capture_logs() as lines:
            yield lines
    finally:
        structlog.configure(**before)
