"""In which order ``accept`` changes the lanes of a job, so that it can be killed and repeated."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.cli import accept
from anabranch.container.checkpoint import acceptance
from anabranch.container.checkpoint.acceptance import Acceptance
from anabranch.coordinator.maintenance import stopped_job
from anabranch.errors import StateError, StoreUnavailableError
from anabranch.model.lane import Lane
from tests.unit.coordinator.helpers import lane


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What has been changed so far, in order."""
    changes: list[str] = []

    def replaced(store: Any, of: Sequence[tuple[Lane, str]], *_: object) -> None:
        if store.is_away:
            raise StoreUnavailableError("the disk is full", "make room")
        changes.append("store")

    monkeypatch.setattr(stopped_job, "begun", lambda _, of, *__: list(of))
    monkeypatch.setattr(stopped_job, "replaced", replaced)
    monkeypatch.setattr(acceptance, "rewrite", lambda found, target, published: changes.append(f"copy {found.lane.id}"))
    return changes


def found(done: list[str], *, pending: bool) -> list[Acceptance]:
    """A lane without a folder, which has a predecessor, and two with folders, of which the last may have a batch."""
    former: Any = SimpleNamespace(note_stream=lambda stream, number: done.append(f"note {stream}"))

    def folder(name: str, pending: bool) -> Any:
        return SimpleNamespace(
            pending=pending, planned=lambda: 7, committed=lambda: 6, remove=lambda: done.append(f"remove {name}")
        )

    def of(name: str, folder: Any, before: list[Any]) -> Acceptance:
        return Acceptance(lane(name), folder, before, "flights", "id", True, {0: 80}, {0: 0}, {0: 0})

    return [
        of("0-1", None, [former]),
        of("0-2", folder("0-2", pending=False), []),
        of("0-3", folder("0-3", pending=pending), []),
    ]


def rewritten(done: list[str], *, pending: bool, is_away: bool = False) -> None:
    store: Any = SimpleNamespace(is_away=is_away)
    systems: Any = SimpleNamespace(
        recover=lambda *_, **__: None, fence_tables=lambda *_, **__: None, published=lambda _: 7
    )
    accept.rewrite(store, systems, found(done, pending=pending), lambda lane: f"new {lane.id}")


def test_what_the_job_compares_its_inputs_with_is_changed_after_the_store(done: list[str]) -> None:
    rewritten(done, pending=False)
    assert done == ["copy 0-2", "copy 0-3", "store", "note flights", "remove 0-2", "remove 0-3"]


def test_if_the_store_cannot_be_changed_the_job_still_refuses_the_stream(done: list[str]) -> None:
    with pytest.raises(StoreUnavailableError):
        rewritten(done, pending=False, is_away=True)
    assert done == ["copy 0-2", "copy 0-3"], "which nothing refers to"


def test_a_lane_is_refused_before_any_is_changed(done: list[str]) -> None:
    with pytest.raises(StateError, match="lane 0-3 has written a part of batch 7"):
        rewritten(done, pending=True)
    assert done == []
