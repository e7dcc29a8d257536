"""What ``run`` prints of its job's progress."""

from __future__ import annotations

import threading

import pytest

from anabranch.cli import tables
from anabranch.errors import StoreUnavailableError
from anabranch.protocol.status import JobStatus
from tests.unit.coordinator.helpers import wait_for


class Reading:
    """A coordinator whose store is full in the second and the third of five looks."""

    def __init__(self, over: threading.Event) -> None:
        self._over = over
        self._looks = 0

    def status(self, job: str) -> JobStatus:
        self._looks += 1
        if self._looks in (2, 3):
            raise StoreUnavailableError("the store can't be written: the disk is full", "make room")
        if self._looks == 5:
            self._over.set()
        return JobStatus(job=job, deployment=1, generation=1, state="running", warnings=(f"warning {self._looks}",))


def test_progress_is_printed_again_once_the_store_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    over = threading.Event()
    watching = threading.Thread(
        target=tables.watch, args=(Reading(over), "delays", over, None), kwargs={"every": 0.01}, daemon=True
    )
    watching.start()
    wait_for(lambda: not watching.is_alive())
    assert over.is_set()
    assert capsys.readouterr().err.splitlines() == [
        "delays running: no lane has started",
        "warning: warning 1",
        "the status of job delays can't be shown at the moment: the store can't be written: the disk is full",
        "delays running: no lane has started",
        "warning: warning 4",
        "warning: warning 5",
    ]
