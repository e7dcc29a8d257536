"""A query that is to be held where it plans a batch, and doesn't come there: no wait is without an end."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.errors import StateError
from anabranch.spark.internals import java, query_hold
from anabranch.spark.internals.query_hold import HeldQuery, NotHeldError

PLANS = "org.apache.MicroBatchExecution.constructNextBatch(MicroBatchExecution.scala:1)"


class Query:
    """As far as holding one looks at it.

    ``stack``: of its thread, which waits for the lock; ``at`` gives the batch it is at; ``owned``: the lock is ours.
    """

    def __init__(self, stack: str = PLANS, at: Callable[[], int] = lambda: 4, under_way: bool = False) -> None:
        self.stack, self.at, self.under_way = stack, at, under_way
        self.free, self.owned, self.alive, self.waits = True, False, True, True

    def queryExecutionThread(self) -> Any:
        return SimpleNamespace(isAlive=lambda: self.alive, getStackTrace=lambda: self.stack)

    def awaitProgressLock(self) -> Any:
        return self

    def awaitProgressLockCondition(self) -> Any:
        return SimpleNamespace(awaitNanos=lambda _: 0)

    def tryLock(self, *_: Any) -> bool:
        self.owned = self.free
        return self.free

    def unlock(self) -> None:
        assert self.owned
        self.owned = False

    def isHeldByCurrentThread(self) -> bool:
        return self.owned

    def hasQueuedThread(self, _: Any) -> bool:
        return self.waits

    def getLatestExecutionContext(self) -> Any:
        return SimpleNamespace(isCurrentBatchConstructed=lambda: self.under_way, batchId=self.at)


class Limits:
    """Those of the query's sources. ``held``: whether they give nothing."""

    held = False

    def hold(self) -> None:
        self.held = True

    def release(self) -> None:
        self.held = False


@pytest.fixture(autouse=True)
def java_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "execution", lambda query: query)
    monkeypatch.setattr(java, "java_class", lambda *_: SimpleNamespace(MILLISECONDS="ms"))
    monkeypatch.setattr(java, "text", lambda _, values: values)
    monkeypatch.setattr(query_hold, "TURN_EVERY", 0.0)
    monkeypatch.setattr(query_hold, "RUNS_WITHIN", 0.2)


def held(query: Query, turn: Callable[[], None] = lambda: None) -> tuple[HeldQuery, Limits]:
    limits: Any = Limits()
    spark: Any = None
    return HeldQuery(spark, query, turn, limits), limits  # type: ignore[arg-type]


def test_one_that_waits_where_it_plans_is_held_and_released() -> None:
    query = Query()
    mine, limits = held(query)
    assert query.owned
    assert limits.held
    mine.release()
    assert not query.owned
    assert not limits.held
    mine.close()


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (Query("Another.planNextBatch(Another.scala:1)"), "has run no batch"),
        (Query("Another.planNextBatch(Another.scala:1)", iter(range(100)).__next__, under_way=True), "plans batches"),
    ],
)
def test_one_that_plans_elsewhere_is_given_up_and_its_lock_given_back(query: Query, why: str) -> None:
    with pytest.raises(NotHeldError, match=why):
        held(query)
    assert not query.owned


def test_one_whose_lock_is_never_free_is_given_up() -> None:
    query = Query()
    query.free = False
    with pytest.raises(NotHeldError, match="has run no batch"):
        held(query)


def test_one_that_has_ended_is_told() -> None:
    query = Query("Another.planNextBatch(Another.scala:1)")
    query.alive = query.waits = False
    with pytest.raises(StateError, match="the query has ended"):
        held(query)


def test_a_batch_that_runs_is_waited_for_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    query, turns = Query(under_way=True), list[int]()
    query.waits = False

    def turn() -> None:
        turns.append(1)
        if len(turns) > 100:  # 0.5 s and more
            query.under_way, query.waits = False, True

    held(query, turn)
    assert query.owned
