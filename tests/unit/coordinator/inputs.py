"""Inputs whose partitions are counted as a test says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anabranch.coordinator.coordinator import Coordinator
from anabranch.errors import AnabranchError
from anabranch.model.job_model import Matched
from tests.unit.coordinator.workers import JOB, Worker, start

IN = "embedded/in"


class Counts:
    """What systems would say."""

    def __init__(self) -> None:
        self.counts = {IN: 2}
        self.asked: list[list[str]] = []
        self.away = False

    def __call__(
        self, job: str, settings: Mapping[str, Any], streams: Iterable[str], patterns: Iterable[Matched]
    ) -> Mapping[str, int]:
        self.asked.append(list(streams))
        if self.away:
            raise AnabranchError("the cluster doesn't answer", "look")
        return dict(self.counts)


def running(coordinator: Coordinator) -> Worker:
    coordinator.start(start())
    worker = Worker(coordinator)
    worker.turns()
    assert coordinator.status(JOB).state == "running"
    return worker
