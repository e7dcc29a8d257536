"""Connects a lane to its Python workers: determines how rows are distributed among them, and receives their reports."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark import Accumulator

from anabranch.planning.ownership.buckets import owned
from anabranch.spark.functions import busy_time, hearing
from anabranch.spark.functions.busy_time import Busy
from anabranch.spark.functions.hearing import Listener
from anabranch.spark.operators import routing
from anabranch.spark.operators.routing import Routing
from anabranch.spark.query.plan import LanePlan
from anabranch.task_progress.counts import ReportAddress

__all__ = ["LaneWorkers"]


@dataclass(frozen=True)
class LaneWorkers:
    """The driver's side of the Python workers that run a lane's functions."""

    plan: LanePlan

    @property
    def line(self) -> ReportAddress | None:
        """Where Python workers report their progress; None if the driver doesn't listen."""
        return None if self.listener is None else self.listener.line

    @cached_property
    def listener(self) -> Listener | None:
        """The listener for the lane's Python workers."""
        return hearing.listening(self.plan.job.spark.sparkContext)

    @cached_property
    def busy(self) -> Accumulator[Busy]:
        return busy_time.listening(self.plan.job.spark.sparkContext)

    def cancel(self, run: str) -> None:
        """End the Python workers that are still working for a run of the lane's query. Call this method if the run was
        stopped in the middle of a batch: without the call, the workers would keep executors busy for seconds.
        """
        if self.listener is not None:
            self.listener.cancel(run)

    def take_busy(self) -> Busy:
        """How many seconds Python functions have worked on each bucket since the last call."""
        return busy_time.heard(self.busy)

    @cached_property
    def routing(self) -> Routing | None:
        """How rows are distributed among Spark tasks before Python functions get them; None if rows stay in their Spark
        tasks.
        """
        virtual = [(number, bucket) for number, mine in owned(self.plan.lane).items() for bucket in mine]
        cores = self.plan.job.spark.sparkContext.defaultParallelism
        return routing.over(virtual, self.plan.lane.factor, cores) if routing.before(self.plan.group) else None

    @property
    def splits(self) -> bool:
        """Whether functions work on rows of one partition in several Spark tasks."""
        return self.routing is not None and (self.routing.splits or bool(self.plan.lane.broadcast))
