"""A timer that its own call registers again, in PySpark's own loop over due timers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState
from pyspark.sql.streaming.stateful_processor_util import (
    TransformWithStateInPandasFuncMode,
    TransformWithStateInPandasUdfUtils,
)

from anabranch.spark.internals import kept_timers

NOW = 100


class Client:
    """Spark's side of a processor: the timers of one key. Due timers are those that were there at first."""

    def __init__(self, *timers: int) -> None:
        self.timers = {*timers}
        self.due = sorted(at for at in timers if at <= NOW)
        self.handle_state = StatefulProcessorHandleState.CREATED

    def set_handle_state(self, state: StatefulProcessorHandleState) -> None:
        self.handle_state = state

    def get_timestamps(self, _: str) -> tuple[int, int]:
        return NOW, NOW

    def get_expiry_timers_iterator(self, *_: Any) -> tuple[tuple[str], int, bool]:
        if not self.due:
            raise StopIteration
        return ("key",), self.due.pop(0), False

    def set_implicit_key(self, key: tuple[str]) -> None: ...

    def register_timer(self, at: int) -> None:
        self.timers.add(at)

    def delete_timer(self, at: int) -> None:
        self.timers.discard(at)


class Again(StatefulProcessor):
    """Registers each of some timers again when it is due, and keeps it if it ``keeps``."""

    def __init__(self, again: set[int], keeps: bool) -> None:
        self.again, self.keeps = again, keeps

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        at = expiredTimerInfo.getExpiryTimeInMs()
        yield at
        if at in self.again:
            self.handle.registerTimer(at)
            if self.keeps:
                kept_timers.keep(self.handle)

    def close(self) -> None: ...


def called(client: Client, processor: StatefulProcessor) -> list[Any]:
    """The due timers that Spark calls in one batch."""
    spark = TransformWithStateInPandasUdfUtils(processor, "EventTime")
    given: Any = client
    return list(spark.transformWithStateUDF(given, TransformWithStateInPandasFuncMode.PROCESS_TIMER, None, iter([])))


@pytest.mark.parametrize(("keeps", "left"), [(True, {1, 3, 200}), (False, {200})])
def test_a_timer_that_registers_itself_again_stays_only_if_it_is_kept(keeps: bool, left: set[int]) -> None:
    client = Client(1, 2, 3, 4, 200)
    assert called(client, Again({1, 3}, keeps)) == [1, 2, 3, 4]
    assert client.timers == left


def test_a_handle_that_deletes_in_another_way_is_left_alone() -> None:
    other: Any = object()
    kept_timers.keep(StatefulProcessorHandle(other))
    kept_timers.keep(other)
    assert kept_timers.SURFACE.is_in_pyspark
    assert kept_timers.SURFACE.tried(other) == ""
