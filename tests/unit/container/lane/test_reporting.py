"""What a lane reports, and when."""

from __future__ import annotations

from typing import Any

from anabranch.container.lane.reporting import Reporter
from tests.unit.coordinator.helpers import FIRST, lane


class Recorded(Reporter):
    """Keeps what each update has changed."""

    changes: list[dict[str, Any]]

    def update(self, **changes: Any) -> None:
        self.changes = [*getattr(self, "changes", []), changes]
        super().update(**changes)


def test_dead_letters_of_earlier_processes_count_from_the_start() -> None:
    assert Reporter(lane(FIRST, put_aside=7), lambda: None).current.progress.dead_letters == 7


def test_all_that_a_batch_changes_is_in_one_report() -> None:
    """Between two, whoever looks would see the new batch with the figures of the one before."""
    reporter = Recorded(lane(FIRST), lambda: None)
    reporter.batch_ended({}, batch=3, seconds=1.5)
    (changes,) = reporter.changes
    assert {"batch", "seconds", "spent", "busy"} <= changes.keys()
    assert (reporter.current.progress.batch, reporter.current.load.seconds) == (3, 1.5)
