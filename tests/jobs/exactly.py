"""Two streams in one task, a function, a durable stream between two stages, another function."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from anabranch import Job

job = Job("exactly")

SCHEMA = "stream string, number int"
FAIL_ONCE = os.environ.get("EXACTLY_FAIL_ONCE", "")
"""A file: the task that first comes to a number of 10 or more takes it away and fails."""


def placed(message: dict[str, Any]) -> dict[str, Any]:
    """With the place of its customer: all of one customer have the same."""
    return {**message, "place": f"place-{int(message['customer'].removeprefix('c')) % 29}"}


def named(message: dict[str, Any]) -> dict[str, Any]:
    if FAIL_ONCE and message["number"] >= 10 and _taken(Path(FAIL_ONCE)):
        raise RuntimeError("this task fails once")
    return {**message, "name": f"{message['stream']}/{message['customer']}/{message['number']}"}


def _taken(file: Path) -> bool:
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    return True


orders, returns = (
    job.read(stream, key="customer string", schema=SCHEMA, name=stream) for stream in ("orders", "returns")
)
(
    orders.merge(returns)
    .map(placed, schema=f"customer string, {SCHEMA}, place string", name="placed")
    .partition_by("place", name="places")
    .map(named, schema=f"customer string, {SCHEMA}, place string, name string", name="named")
    .write("exact")
)
