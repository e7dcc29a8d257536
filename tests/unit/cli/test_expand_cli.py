"""``anabranch expand`` and ``plan expand``, against a coordinator at a URL."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError, OutOfTimeError
from tests.support.verbs import Call, served
from tests.unit.coordinator.inputs import IN, Counts, running
from tests.unit.coordinator.workers import JOB


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def run(tmp_path: Path, counts: Counts) -> Iterator[Call]:
    coordinator = Coordinator(Store("sqlite://"), lease=10, grace=2, counting=counts)
    running(coordinator)
    with served(coordinator, tmp_path) as call:
        yield call


def test_it_says_what_comes_of_it(run: Call, counts: Counts) -> None:
    assert "nothing would change" in run("plan", "expand", JOB)[0]
    assert "generation 1: it has all partitions of its inputs already" in run("expand", JOB)[1]
    counts.counts[IN] = 4
    told, _ = run("plan", "expand", JOB)
    assert f"{IN} has 4 partitions" in told
    assert "lanes that follow them" in told
    told, said = run("expand", JOB, "--detach", "--json")
    assert json.loads(told)["partitions"] == {IN: 4}
    assert "2 lane(s) are closed, 2 follow them" in said


@pytest.mark.parametrize("words", [("scale", JOB, "--factor", "2"), ("expand", JOB)])
def test_a_change_whose_first_answer_was_lost_is_waited_for(
    run: Call, counts: Counts, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    counts.counts[IN] = 4
    request = uuid.uuid4()
    monkeypatch.setattr(uuid, "uuid4", lambda: request)
    run(*words, "--detach")
    with pytest.raises(OutOfTimeError, match=f"job {JOB} is still changing"):
        run(*words, "--timeout", "0.3")
    assert "the change has been requested; the first answer was lost" in run(*words, "--detach")[1]


def test_what_cannot_be_is_refused(run: Call, counts: Counts) -> None:
    counts.counts[IN] = 3
    for words in (("plan", "expand", JOB), ("expand", JOB)):
        with pytest.raises(ConflictError, match="3 partitions, and the state of stage 0 was first written with 2"):
            run(*words)
