"""A query that is ended while it plans a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from anabranch.spark.internals import java, stop_at_batch
from tests.support import surfaces


@pytest.fixture(autouse=True)
def java_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query here is its own Java object."""
    monkeypatch.setattr(java, "execution", lambda query: query)
    monkeypatch.setattr(java, "singleton", lambda _, name: name.rpartition(".")[2])
    surfaces.pretend(monkeypatch, stop_at_batch.SURFACE)


class Query:
    """As far as ending one looks at it: what it says of itself, one message a look, and its thread, which lives until
    some looks after it was ended."""

    def __init__(self, messages: list[str], left: int = 1) -> None:
        self._messages: Iterator[str] = iter(messages)
        self.message, self._left = "", left
        self.ended_at: str | None = None
        self.stopped = False

    @property
    def status(self) -> dict[str, str]:
        self.message = next(self._messages, self.message)
        return {"message": self.message}

    def state(self) -> Any:
        return self

    def set(self, state: str) -> None:
        assert state == "TERMINATED"
        self.ended_at = self.message

    def queryExecutionThread(self) -> Any:
        return self

    def isAlive(self) -> bool:
        return not self.stopped and (self.ended_at is None or self._left > 0)

    @property
    def isActive(self) -> bool:
        return not self.stopped

    def join(self, _: int) -> None:
        self._left -= 1

    def stop(self) -> None:
        self.stopped = True


def ended(query: Query, **kwargs: Any) -> None:
    spark: Any = None
    stop_at_batch.end(spark, query, **kwargs)  # type: ignore[arg-type]


def test_a_batch_that_is_being_planned_is_run_first() -> None:
    messages = ["Getting offsets from Kafka", "Writing offsets to log", *["Processing new data"] * 3, "Written"]
    query = Query(messages)
    ended(query, writes=lambda: query.message == "Written")
    assert query.ended_at == "Written"
    assert not query.stopped


@pytest.mark.parametrize("message", ["Waiting for data to arrive", "Initializing sources"])
def test_a_query_without_a_batch_is_ended_at_once(message: str) -> None:
    query = Query([message])
    ended(query)
    assert query.ended_at == message
    assert not query.stopped


def test_one_that_waits_for_its_interval_is_stopped() -> None:
    query = Query(["Waiting for next trigger"])
    ended(query)
    assert query.stopped


def test_in_a_hurry_a_batch_is_not_waited_for() -> None:
    query = Query(["Processing new data"])
    ended(query, hurry=lambda: True)
    assert query.ended_at == ""
    assert query.stopped


@pytest.mark.parametrize(("messages", "last"), [(["a", "a", "planned", "b"], "b"), (["a", "a"], "Waiting")])
def test_another_batch_is_the_last_one_if_one_comes(
    monkeypatch: pytest.MonkeyPatch, messages: list[str], last: str
) -> None:
    monkeypatch.setattr(stop_at_batch, "NEXT_WITHIN", 0.2)
    query = Query([*messages, *(["Waiting"] if last == "Waiting" else [])])
    decided = list[str]()
    ended(
        query,
        writes=lambda: query.status["message"] in ("a", "b"),
        another=True,
        decided=lambda: decided.append(query.message),
    )
    assert query.ended_at == last
    assert decided == [last]


def test_what_is_raised_meanwhile_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_at_batch, "TURN_EVERY", 0)

    def turn() -> None:
        raise TimeoutError

    query = Query(["Writing offsets to log"])
    with pytest.raises(TimeoutError):
        ended(query, turn=turn)
    assert query.ended_at is None


def test_a_spark_without_that_state_is_stopped_once_a_batch_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    surfaces.pretend(monkeypatch, stop_at_batch.SURFACE, "it has no class TERMINATED$")
    query = Query(["Processing new data"] * 3)
    written, decided = iter([True, True, False]), list[bool]()
    ended(query, writes=lambda: next(written), decided=lambda: decided.append(query.stopped))
    assert query.ended_at is None
    assert query.stopped
    assert next(written, None) is None
    assert decided == [False]


def test_one_that_says_nothing_that_is_known_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_at_batch, "STOPS_WITHIN", 0.2)
    query = Query(["In a state that no version had"], left=0)
    ended(query)
    assert query.ended_at is not None


def test_one_that_goes_on_all_the_same_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_at_batch, "STOPS_WITHIN", 0.2)
    query = Query(["Waiting for data to arrive"], left=10**9)
    ended(query)
    assert query.stopped
