"""What a run does at its sentinels, with incarnations that only note what they should do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from anabranch import Job
from anabranch.errors import UsageError
from anabranch.testing import BATCH, DRAIN, KILL, run, running


def writing_nothing() -> Job:
    job = Job("j")
    job.read("flights", schema="n int").foreach_batch(print)
    return job


class Noting:
    """Stands for an incarnation."""

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def run(self) -> None:
        self._done.append("run")

    def run_and_kill(self) -> tuple[()]:
        self._done.append("kill")
        return ()

    def run_and_drain(self) -> None:
        self._done.append("drain")


def pickled(rows: Any) -> Any:
    return pickle.loads(pickle.dumps(rows))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copied_sentinel_is_the_same_sentinel(copied: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(running.session, "shared", lambda settings: None)
    monkeypatch.setattr(running, "carry", lambda functions: None)
    monkeypatch.setattr(running, "Incarnation", lambda *_: Noting(done))
    rows = [{"n": 1}, *(copied(sentinel) for sentinel in (BATCH, KILL, DRAIN))]
    result = run(writing_nothing(), {"flights": rows})
    assert done == ["run", "kill", "drain", "run"]
    assert len(result.kills) == 1


def test_a_copied_kill_is_refused_in_real_time_too() -> None:
    with pytest.raises(UsageError, match="the inputs have a KILL"):
        run(writing_nothing(), {"flights": [copy.deepcopy(KILL)]}, trigger="real-time")
