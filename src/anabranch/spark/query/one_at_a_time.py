"""Lets Spark analyze and start only one query at a time, because all lanes of a process share one session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from anabranch.spark.query.plan import LanePlan

__all__ = ["turn"]

_STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_lock = threading.Lock()


@contextmanager
def turn(plan: LanePlan) -> Iterator[None]:
    """Within the block, no other query is analyzed or started, and the session has the settings of this lane. All other
    lanes wait meanwhile, so the block must not wait for anything but Spark: not for brokers, tables or storage.
    """
    with _lock:
        conf = plan.job.spark.conf
        conf.set("spark.sql.shuffle.partitions", str(plan.lane.state_partitions))
        conf.set(_STATE_FORMAT, "2" if plan.real_time else "1")
        yield
