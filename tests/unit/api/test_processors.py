"""A processor's state and timers, on a store in memory: what a message sees, what is kept, what a failure leaves."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Job, ListState, MapState, Processor, Stream, Timers, ValueState, tumbling
from anabranch.api.first_rows import FirstRows
from anabranch.api.journal import Journal
from anabranch.api.timers import EVENT_TIME, INFINITY, moment
from anabranch.errors import GraphError, UsageError
from anabranch.planning import groups, stages

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Store:
    """All three kinds of state, and timers, of one key. ``asked``: how often it was read or written."""

    def __init__(self) -> None:
        self.value: Any = None
        self.entries: dict[Any, Any] = {}
        self.asked = 0

    def check(self, value: Any) -> None:
        if value == "wrong":
            raise TypeError("wrong")

    check_name = check

    def get(self, *name: Any) -> Any:
        self.asked += 1
        return self.entries.get(name[0]) if name else copy.deepcopy(self.value)

    def put(self, *given: Any) -> None:
        self.asked += 1
        if len(given) == 2:
            self.entries[given[0]] = given[1]
        else:
            self.value = given[0]

    def append(self, values: list[Any]) -> None:
        self.asked += 1
        self.value = [*(self.value or ()), *values]

    def items(self) -> Iterable[tuple[Any, Any]]:
        self.asked += 1
        return list(self.entries.items())

    def remove(self, name: Any) -> None:
        self.asked += 1
        self.entries.pop(name, None)

    def clear(self) -> None:
        self.asked += 1
        self.value, self.entries = None, {}


class Lists(Store):
    def get(self, *name: Any) -> Any:
        return super().get() or []


class Kept:
    """Timers."""

    def __init__(self, *at: int) -> None:
        self.at = set(at)

    def all(self) -> Iterable[int]:
        return self.at

    def register(self, at: int) -> None:
        self.at.add(at)

    def delete(self, at: int) -> None:
        self.at.discard(at)


def test_many_messages_ask_the_store_once() -> None:
    store, journal = Store(), Journal()
    state = ValueState("long").bound(store, journal)
    assert state.get() is None
    assert state.get(0) == 0
    for _ in range(10):
        journal.begin()
        state.set(state.get(0) + 1)
    assert store.asked == 1
    state.flush()
    assert (store.value, store.asked) == (10, 2)
    state.begin()
    assert state.get() == 10
    state.flush()
    assert store.asked == 3, "nothing was changed"
    state.clear()
    assert state.get(5) == 5
    state.flush()
    assert store.value is None


def test_what_a_message_gets_is_its_own() -> None:
    store = Store()
    state = ValueState("n array<long>").bound(store, Journal())
    mine = {"n": [1]}
    state.set(mine)
    mine["n"].append(2)
    state.get()["n"].append(3)
    assert state.get() == {"n": [1]}


MAP = st.tuples(st.sampled_from(["set", "delete", "clear", "get", "items"]), st.sampled_from("ab"), st.integers(1, 9))
LIST = st.tuples(st.sampled_from(["append", "set", "clear", "get"]), st.just(""), st.integers(1, 9))
MESSAGES = st.tuples(st.booleans(), st.booleans())


@given(st.lists(st.tuples(MESSAGES, st.lists(MAP, max_size=4)), max_size=6))
def test_a_map_is_as_a_dict_that_forgets_failed_messages(several: list[tuple[tuple[bool, bool], list[Any]]]) -> None:
    store, journal, expected = Store(), Journal(), dict[str, int]()
    state = MapState("string", "long").bound(store, journal)
    for (fails, ends), steps in several:
        journal.begin()
        before = dict(expected)
        for what, name, value in steps:
            if what == "set":
                state.set(name, value)
                expected[name] = value
            elif what == "delete":
                state.delete(name)
                expected.pop(name, None)
            elif what == "clear":
                state.clear()
                expected = {}
            elif what == "get":
                assert state.get(name) == expected.get(name)
                assert (name in state) == (name in expected)
            assert dict(state.items()) == expected
        if fails:
            journal.take_back()
            expected = before
            assert dict(state.items()) == expected
        if ends:
            state.flush()
            state.begin()
            assert store.entries == expected
    state.flush()
    assert store.entries == expected


@given(st.lists(st.tuples(MESSAGES, st.lists(LIST, max_size=4)), max_size=6))
def test_a_list_is_as_a_list_that_forgets_failed_messages(several: list[tuple[tuple[bool, bool], list[Any]]]) -> None:
    store, journal, expected = Lists(), Journal(), list[int]()
    state = ListState("long").bound(store, journal)
    for (fails, ends), steps in several:
        journal.begin()
        before = list(expected)
        for what, _, value in steps:
            if what == "append":
                state.append(value)
                expected = [*expected, value]
            elif what == "set":
                state.set([value, value])
                expected = [value, value]
            elif what == "clear":
                state.clear()
                expected = []
            else:
                assert state.get() == expected
        if fails:
            journal.take_back()
            expected = before
        if ends:
            state.flush()
            state.begin()
            assert (store.value or []) == expected
    state.flush()
    assert (store.value or []) == expected


def test_to_append_reads_nothing() -> None:
    store = Lists()
    state = ListState("long").bound(store, Journal())
    state.append(1)
    state.append(2)
    state.flush()
    assert (store.value, store.asked) == ([1, 2], 1)


@pytest.mark.parametrize("value", [None, "wrong"])
def test_what_can_t_be_kept_is_told_at_once(value: Any) -> None:
    journal = Journal()
    with pytest.raises((UsageError, TypeError)):
        ValueState("long").bound(Store(), journal).set(value)
    with pytest.raises((UsageError, TypeError)):
        ListState("long").bound(Lists(), journal).append(value)
    with pytest.raises((UsageError, TypeError)):
        ListState("long").bound(Lists(), journal).set([value])
    with pytest.raises((UsageError, TypeError)):
        MapState("string", "long").bound(Store(), journal).set("a", value)
    with pytest.raises((UsageError, TypeError)):
        MapState("string", "long").bound(Store(), journal).set(value, 1)


def test_state_outside_of_a_processor() -> None:
    for state, use in ((ValueState("long"), "set"), (ListState("long"), "append")):
        with pytest.raises(UsageError, match="outside of on_message"):
            getattr(state, use)(1)
    for bad in ("", " ", None, int):
        with pytest.raises(UsageError, match="not a type"):
            ValueState(bad)  # type: ignore[arg-type]


def test_timers() -> None:
    kept, journal = Kept(5), Journal()
    timers = Timers(kept, EVENT_TIME, journal)
    timers.begin(0)
    assert timers.now is None
    assert not timers.draining
    timers.begin(1000)
    assert timers.now == moment(1000)
    timers.register(NOON + timedelta(microseconds=1))
    timers.register(NOON.astimezone(timezone(timedelta(hours=5))))
    later = NOON + timedelta(milliseconds=1)
    assert timers.registered() == [moment(5), NOON, later]
    journal.begin()
    timers.delete(NOON)
    timers.delete(moment(5))
    assert timers.registered() == [later]
    journal.take_back()
    assert timers.registered() == [moment(5), NOON, later]
    timers.delete(moment(5))
    assert timers.flush() == {_ms(NOON): True, _ms(later): True, 5: False}
    assert kept.at == {_ms(NOON), _ms(later)}


def test_no_timer_is_registered_while_the_job_drains() -> None:
    kept = Kept()
    timers = Timers(kept, EVENT_TIME, Journal())
    timers.begin(INFINITY)
    assert timers.draining
    assert timers.now == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    timers.register(NOON)
    timers.flush()
    assert not kept.at


def test_no_timer_is_beyond_a_drain() -> None:
    kept = Kept()
    timers = Timers(kept, EVENT_TIME, Journal())
    timers.register(datetime.max.replace(tzinfo=UTC))
    assert timers.registered() == [moment(INFINITY - 1)]


@pytest.mark.parametrize("at", [NOON.replace(tzinfo=None), 5, "2026-01-01"])
def test_a_timer_has_a_time_with_a_zone(at: Any) -> None:
    timers = Timers(Kept(), EVENT_TIME, Journal())
    with pytest.raises(UsageError, match="not a time with a zone"):
        timers.register(at)


def test_no_timers_without_a_clock() -> None:
    timers = Timers(None, None, Journal())
    timers.begin(0)
    with pytest.raises(UsageError, match="no timers"):
        timers.register(NOON)


class Counts(Processor):
    n = ValueState("long")
    by = MapState("string", "count int")

    def on_message(self, message: dict[str, Any], timers: Timers) -> None: ...


class Reminds(Counts):
    late = ListState("string")

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> None: ...


def test_the_graph_tells_what_state_there_is() -> None:
    job = Job("j")
    job.read("in", key="k string").process(Reminds(), timers="processing_time", schema="k string")
    node = job.graph.nodes[-1]
    assert (node.kind, node.name) == ("process", "process")
    assert node.args == {
        "schema": "k string",
        "timers": "processing_time",
        "state": {
            "n": {"kind": "value", "type": "long"},
            "by": {"kind": "map", "names": "string", "type": "count int"},
            "late": {"kind": "list", "type": "string"},
        },
    }


@pytest.mark.parametrize(
    ("processor", "timers", "said"),
    [
        (Counts, None, "the class Counts, not a processor"),
        (len, None, "not a processor"),
        (Counts(), "event_time", "no on_timer"),
        (Reminds(), None, "has an on_timer, and timers=None"),
        (Reminds(), "wall_clock", "timers='wall_clock'"),
    ],
)
def test_what_process_refuses(processor: Any, timers: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        Job("j").read("in", key="k string").process(processor, timers=timers)


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def read(job: Job, **more: Any) -> Any:
    return job.read("in", schema="n int, at timestamp", **more)


TIMED: dict[str, Any] = {"event_time": "at", "watermark": "1 minute"}


@pytest.mark.parametrize(
    ("keyed", "timed", "timers", "said"),
    [
        ({}, {}, None, "keeps state but has no stage key: read 'in' .* declares no key="),
        ({"key": "k string"}, {}, "event_time", "has event-time timers, but its rows have no event time"),
        ({"key": "k string"}, {}, "processing_time", ""),
        ({"key": "k string"}, TIMED, "event_time", ""),
    ],
)
def test_what_a_processor_needs(keyed: Any, timed: Any, timers: Any, said: str) -> None:
    job = Job("j")
    processor = Counts() if timers is None else Reminds()
    read(job, **keyed, **timed).process(processor, timers=timers, name="p").write("out")
    (stage,) = stages.cut(job.graph)
    if said:
        with pytest.raises(GraphError, match=said):
            groups.cut(job.graph, stage, {"out": "embedded"})
        return
    (group,) = groups.cut(job.graph, stage, {"out": "embedded"})
    assert (group.name, bool(group.timed(job.graph))) == ("p", timers == "event_time")


def test_the_watermark_comes_through_a_boundary_to_event_time_timers_only() -> None:
    for timers in ("event_time", "processing_time"):
        job = Job("j")
        by = read(job, key="k string", **TIMED).partition_by("n")
        by.process(Reminds(), timers=timers, name="p").write("out")
        assert bool(stages.timed(job.graph)) == (timers == "event_time")


class Limited:
    """A ``limit_per_key(n)`` at work on the batches of a lane. Only the state goes from one batch to the next."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.stores: dict[str, Store] = {}

    def passed(self, batch: list[dict[str, Any]], rejected: int | None = None) -> list[dict[str, Any]]:
        """The rows that pass of those of one key. ``rejected``: the number of the row that fails when it has passed."""
        processor, journal = FirstRows(self.n), Journal()
        processor.passed = FirstRows.passed.bound(self.stores.setdefault(batch[0]["k"], Store()), journal)
        rows: list[dict[str, Any]] = []
        for message in batch:
            journal.begin()
            given_on = list(processor.on_message(message, Timers(None, None, journal)))
            if message["number"] == rejected:
                journal.take_back()
            else:
                rows += given_on
        processor.passed.flush()
        return rows


@given(st.integers(1, 5), st.lists(st.lists(st.sampled_from("abc"), max_size=8), max_size=6))
def test_a_limit_passes_the_first_rows_of_each_key(n: int, batches: list[list[str]]) -> None:
    """However many batches they come in."""
    limited, number = Limited(n), count()
    came: dict[str, list[dict[str, Any]]] = {}
    passed: dict[str, list[dict[str, Any]]] = {}
    for batch in batches:
        rows = [{"k": key, "number": next(number)} for key in batch]
        for key in sorted(set(batch)):
            own = [row for row in rows if row["k"] == key]
            came.setdefault(key, []).extend(own)
            passed.setdefault(key, []).extend(limited.passed(own))
    assert passed == {key: rows[:n] for key, rows in came.items()}
    assert {key: store.value for key, store in limited.stores.items()} == {
        key: len(rows) for key, rows in passed.items()
    }


def test_a_row_that_becomes_a_dead_letter_is_not_counted_by_a_limit() -> None:
    limited = Limited(2)
    rows = [{"k": "a", "number": number} for number in range(4)]
    assert limited.passed(rows, rejected=0) == rows[1:3]


def test_a_limit_asks_the_store_once_for_a_batch_of_a_key() -> None:
    limited = Limited(2)
    limited.passed([{"k": "a", "number": number} for number in range(100)])
    assert limited.stores["a"].asked == 2  # read, and written
    limited.passed([{"k": "a", "number": number} for number in range(100)])
    assert limited.stores["a"].asked == 3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (read, "process 'limit-per-key' .* keeps state but has no stage key"),
        (lambda job: read(job, key="k string").agg(n="count(*)"), "comes after agg 'agg' in one stage"),
        (lambda job: read(job, key="k string").limit_per_key(3), "comes after process 'limit-per-key' in one stage"),
    ],
)
def test_a_limit_needs_a_stage_key_of_its_own(make: Callable[[Job], Stream], said: str) -> None:
    job = Job("j")
    make(job).limit_per_key(1).write("out")
    (stage,) = stages.cut(job.graph)
    with pytest.raises(GraphError, match=said):
        groups.cut(job.graph, stage, {"out": "embedded"})


def test_rows_have_the_stage_key_and_no_event_time_behind_a_limit() -> None:
    job = Job("j")
    limited = read(job, key="k string", **TIMED).limit_per_key(1)
    limited.window(tumbling("1 hour")).agg(n="count(*)").write("out")
    (stage,) = stages.cut(job.graph)
    assert stages.key_columns(job.graph, stage)[1].columns == ("k",)
    assert stages.event_times(job.graph)[1].lost.endswith("gives rows of its own, which have no event time")


def test_state_after_state_needs_a_stage_of_its_own() -> None:
    job = Job("j")
    read(job, key="k string").agg(n="count(*)").process(Counts(), name="p").write("out")
    (stage,) = stages.cut(job.graph)
    with pytest.raises(GraphError, match=r"process 'p' .* comes after agg 'agg' in one stage"):
        groups.cut(job.graph, stage, {"out": "embedded"})
