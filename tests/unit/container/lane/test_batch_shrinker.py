"""What happens to a batch that took too long before it is run again with fewer rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from anabranch.container.lane import quiet
from anabranch.container.lane.attempt import Attempt
from anabranch.container.lane.batch_shrinker import BatchShrinker

TOO_LONG = RuntimeError("anabranch.errors.TooLongError: the transaction took longer than 120 s")


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, in its order."""
    found = list[str]()
    monkeypatch.setattr(quiet, "wait", lambda _: found.append("waited for quiet"))
    return found


def shrinker(done: list[str], *, rows: int = 10, published: int = 2) -> BatchShrinker:
    """That of a stateless lane whose batch 3 is pending."""
    query = SimpleNamespace(
        plan=SimpleNamespace(stateful=False),
        workers=SimpleNamespace(cancel=lambda run: done.append(f"cancelled {run}")),
        pacer=SimpleNamespace(failed=lambda rows: done.append(f"{rows} rows failed"), limit=5),
    )
    attempt = SimpleNamespace(
        query=query,
        started=SimpleNamespace(runId="run-1", stop=lambda: done.append("stopped")),
        lane=None,
        folder=SimpleNamespace(pending=True, planned=lambda: 3),
        lane_folders=SimpleNamespace(published=lambda _: published),
        pending_ranges=lambda: {"kafka/a/0": (0, rows)},
    )
    return BatchShrinker(cast(Attempt, attempt))


def test_nothing_works_on_a_batch_any_more_when_it_is_to_go_on_smaller(done: list[str]) -> None:
    """A worker that outlives the failed run could commit the old, larger part."""
    assert shrinker(done).goes_on_smaller(TOO_LONG)
    assert done == ["stopped", "cancelled run-1", "waited for quiet", "10 rows failed"]


def test_a_batch_that_cannot_become_smaller_is_left_alone(done: list[str]) -> None:
    assert not shrinker(done).goes_on_smaller(RuntimeError("another error"))
    assert not shrinker(done, rows=1).goes_on_smaller(TOO_LONG)
    assert not shrinker(done, published=3).goes_on_smaller(TOO_LONG)
    assert done == []
