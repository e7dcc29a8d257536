"""``process``: state and timers for each key, on Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession

from anabranch import Job, ListState, MapState, Processor, Timers, ValueState
from anabranch.api.stream import Stream
from anabranch.errors import GraphError, UsageError
from anabranch.testing import BATCH, DRAIN, run
from tests.integration.dead_letters import letters
from tests.integration.harness import PATIENCE, Site

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
SCHEMA = "at timestamp, n int"


class Silence(Processor):
    """One row for each key, an hour of event time after its last message."""

    last = ValueState("timestamp")
    seen = ListState("long")
    parity = MapState("string", "count int, last timestamp")

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        self.seen.append(message["n"])
        before = self.last.get()
        if before is not None:
            timers.delete(before + HOUR)
        self.last.set(message["at"])
        timers.register(message["at"] + HOUR)
        name = "odd" if message["n"] % 2 else "even"
        self.parity.set(name, {"count": self.parity.get(name, {"count": 0})["count"] + 1, "last": message["at"]})
        if message["n"] < 0:
            yield {"k": "never seen"}
            raise ValueError("below zero")
        if message["n"] == 7:
            yield {"k": message["k"], "seen": [7]}

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        assert timers.now is not None
        assert timers.now >= at == self.parity.get("odd", self.parity.get("even"))["last"] + HOUR
        if key["k"] == "bad":
            self.seen.append(1000)
            raise KeyError("bad")
        parity = {name: each["count"] for name, each in self.parity.items()}
        yield {"k": key["k"], "seen": self.seen.get(), "at": at, "parity": parity}
        for state in (self.last, self.seen, self.parity):
            state.clear()


def silence() -> Job:
    job = Job("j")
    read = job.read("in", key="k string", schema=SCHEMA, event_time="at", watermark="1 minute")
    result = "k string, seen array<long>, at timestamp, parity map<string, int>"
    read.process(Silence(), schema=result, timers="event_time", name="silence").write("out")
    return job


def put(site: Site, partition: int, hours: float, *pairs: tuple[str, int]) -> None:
    at = (START + HOUR * hours).isoformat()
    site.put("in", partition, [{"at": at, "n": n} for _, n in pairs], [key.encode() for key, _ in pairs])


def test_state_and_timers_of_event_time(site: Site) -> None:
    """Of what raises, a message or a timer, nothing stays but a dead letter."""
    site.log.create("in", 2)
    run = site.deployed(silence(), on_error="dead-letter")
    put(site, 0, 0, ("a", 1), ("b", 2), ("a", -5), ("a", 3), ("a", 7), ("bad", 1))
    put(site, 1, 0, ("c", 1))
    put(site, 0, 0.5, ("a", 9))
    put(site, 1, 0.5, ("c", 3))
    run.ran()
    assert site.values("out") == [{"k": "a", "seen": [7]}]
    put(site, 0, 0.1, ("z", 1))  # late, and taken all the same
    put(site, 0, 1.2, ("z", 1))
    put(site, 1, 1.2, ("c", 5))
    put(site, 0, 9, ("y", 2))
    put(site, 1, 9, ("y", 2))
    run.ran()
    rows = {v["k"]: (v["seen"], v["parity"], v["at"][:16]) for v in site.values("out")[1:]}
    assert rows == {
        "a": ([1, 3, 7, 9], {"odd": 4}, "2026-01-01T01:30"),
        "b": ([2], {"even": 1}, "2026-01-01T01:00"),
        "c": ([1, 3, 5], {"odd": 3}, "2026-01-01T02:12"),
        "z": ([1, 1], {"odd": 2}, "2026-01-01T02:12"),
    }
    letters = [{h["key"]: h["value"].decode() for h in r["headers"]} for r in site.all_records("in-dead-letters")]
    told = {letter["anabranch.error"].split(" at ")[0]: letter.get("anabranch.offset") for letter in letters}
    assert told == {"ValueError: below zero": "2", "KeyError: 'bad'": None}
    assert all(letter["anabranch.operator"].startswith("process 'silence' (test_process.py:") for letter in letters)


@pytest.mark.long
def test_a_limit_passes_the_first_rows_of_each_key_also_after_a_restart(site: Site) -> None:
    site.log.create("in", 2)
    job = Job("j")
    job.read("in", key="k string", schema=SCHEMA).limit_per_key(2, name="first").write("out")
    run = site.deployed(job)
    put(site, 0, 0, ("a", 1), ("b", 1), ("a", 2), ("a", 3))
    run.ran()
    put(site, 0, 1, ("a", 4), ("b", 2), ("b", 3))
    put(site, 1, 1, ("c", 1))
    run.ran()
    passed = sorted((value["k"], value["n"]) for value in site.values("out"))
    assert passed == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1)]


@pytest.mark.long
def test_a_column_can_have_the_name_of_an_argument_in_python(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"cls": 1, "self": 2}], [b"a"])
    job = Job("j")
    job.read("in", key="k string", schema="cls int, self int").limit_per_key(1).write("out")
    site.deployed(job).ran()
    assert site.values("out") == [{"cls": 1, "self": 2, "k": "a"}]


def test_zeros_with_and_without_a_sign_are_one_key(site: Site) -> None:
    site.log.create("in", 1)
    job = Job("j")
    job.read("in", key="k double, x float", schema="n int").limit_per_key(2).write("out")
    run = site.deployed(job)
    for n, key in enumerate((b"[0.0,-0.0]", b"[-0.0,0.0]", b"[-0.0,-0.0]")):
        site.put("in", 0, [{"n": n}], [key])
        run.ran()
    assert [(row["n"], row["k"], row["x"]) for row in site.values("out")] == [(0, 0.0, 0.0), (1, 0.0, 0.0)]
    assert {record["key"] for record in site.all_records("out")} == {b"[0.0,0.0]"}


class Numbers(Processor):
    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        yield {"n": message["n"]}


def with_far_times(site: Site) -> tuple[Job, Stream]:
    """Four rows of one key. All but the first have a date or time that Python can't represent."""
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(4)], [b"k"] * 4)
    year_10000 = "timestamp_micros(253402300800000000)"
    job = Job("j")
    return job, job.read("in", key="k string", schema="n int").with_columns(
        at=f"case n when 0 then {year_10000} - interval 1 microsecond when 1 then {year_10000} end",
        day="case n when 0 then date'0001-01-01' when 2 then date_from_unix_date(-719163) end",
        deep=f"array(named_struct('m', map('x', if(n = 3, cast({year_10000} as timestamp_ntz), null))))",
    )


def test_rows_with_times_that_python_cannot_hold_are_put_aside_and_the_others_pass(site: Site) -> None:
    job, rows = with_far_times(site)
    rows.process(Numbers(), schema="n int", name="numbers").write("numbers")
    rows.limit_per_key(9, name="first").select("n").write("first")
    run = site.deployed(job, on_error="dead-letter")
    run.ran()
    assert site.values("numbers") == site.values("first") == [{"n": 0}]
    error = "the column {!r} has a date or time outside the years 1 to 9999, which Python can't hold"
    errors = {(ours["operator"].split("'")[1], ours["offset"]): ours["error"] for _, _, ours in letters(site)}
    wrong = {"1": "at", "2": "day", "3": "deep"}
    assert errors == {(name, at): error.format(wrong[at]) for name in ("numbers", "first") for at in wrong}


@pytest.mark.long
def test_a_time_that_python_cannot_hold_fails_the_lane_if_errors_shall(site: Site) -> None:
    job, rows = with_far_times(site)
    rows.process(Numbers(), schema="n int", name="numbers").write("numbers")
    error = site.deployed(job, on_error="fail").failure()
    assert "the column 'at' has a date or time outside the years 1 to 9999" in error
    assert "on offset 1 of partition 0 of embedded/in" in error


class Every(Processor):
    """Values of many types, in and out of the state."""

    value = ValueState(
        "s string, b binary, d date, t timestamp, m decimal(10,2), a array<struct<at:timestamp,n:int>>, f double,"
        "y boolean, e map<string,array<timestamp>>, z timestamp_ntz"
    )
    names = MapState("date", "struct<x:int>")
    plain = ListState("decimal(5,1)")

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        now = {
            "s": "ü", "b": b"\x00\xff", "d": date(2026, 1, 2), "t": START + timedelta(microseconds=3),
            "m": Decimal("12.30"), "a": [{"at": START, "n": 1}, None], "f": 0.5, "y": True, "e": {"x": [START, None]},
            "z": datetime(2026, 1, 1),
        }  # fmt: skip
        before = self.value.get()
        assert before in (None, now), before
        self.value.set(now)
        assert (date(2026, 1, 2) in self.names) == (before is not None)
        self.names.set(date(2026, 1, 2), {"x": 5})
        assert dict(self.names.items()) == {date(2026, 1, 2): {"x": 5}}
        self.plain.append(Decimal("1.5"))
        yield {"seen": self.plain.get(), "again": before is not None}
        if message["n"] == 2:
            self.value.set({"a": "no list"})


@pytest.mark.long
def test_values_come_back_as_they_were_and_a_wrong_one_is_the_message_s_error(site: Site) -> None:
    site.log.create("in", 1)
    job = Job("j")
    read = job.read("in", key="k string, w long", schema="n int")
    read.process(Every(), schema="seen array<decimal(5,1)>, again boolean", name="every").write("out")
    run = site.deployed(job)
    for n in (0, 1):
        site.put("in", 0, [{"n": n}], [b'["a",1]'])
        run.ran()
    assert [(v["again"], v["seen"]) for v in site.values("out")] == [(False, [1.5]), (True, [1.5, 1.5])]
    site.put("in", 0, [{"n": 2}], [b'["a",1]'])
    error = run.failure()
    assert "process 'every' (test_process.py:" in error
    assert "on offset 2 of partition 0 of embedded/in" in error


class Later(Processor):
    def on_message(self, message: dict[str, Any], timers: Timers) -> None:
        assert timers.now is not None
        timers.register(timers.now + timedelta(milliseconds=1500))

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> list[dict[str, Any]]:
        return [{"k": key["k"]}]


@pytest.mark.long
def test_timers_of_processing_time_need_no_input(site: Site, tmp_path: Path) -> None:
    site.log.create("in", 1)
    job = Job("j")
    job.read("in", key="k string", schema="n int").process(Later(), schema="k string", timers="processing_time").write(
        "out"
    )
    run = site.deployed(job)
    site.put("in", 0, [{"n": 1}], [b"a"])
    query = run.query(run.lanes[0], (tmp_path / "folder").as_uri()).start()
    try:
        end = time.monotonic() + PATIENCE
        while not site.all_records("out"):
            assert time.monotonic() < end, query.status
            assert query.exception() is None
            time.sleep(0.1)
        begun = [datetime.fromisoformat(p["timestamp"]) for p in query.recentProgress]
    finally:
        query.stop()
    assert site.values("out") == [{"k": "a"}]
    assert len(begun) <= (begun[-1] - begun[0]).total_seconds() + 2


class Returning(Processor):
    """The first of three timers registers itself again, and deletes the last one, which the second registers again."""

    calls = ListState("long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> None:
        for number in range(3 if message["n"] else 0):
            timers.register(START + timedelta(minutes=number))

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        number = (at - START) // timedelta(minutes=1)
        self.calls.append(number)
        last = START + timedelta(minutes=2)
        if number == 0 and self.calls.get().count(0) < 3:
            timers.register(at)
            timers.delete(last)
        elif number == 1:
            timers.register(last)
        yield {"k": key["k"], "calls": self.calls.get()}


@pytest.mark.long
def test_a_timer_that_is_registered_again_is_called_again(site: Site) -> None:
    site.log.create("in", 1)
    job = Job("j")
    read = job.read("in", key="k string", schema=SCHEMA, event_time="at", watermark="1 minute")
    read.process(Returning(), schema="k string, calls array<long>", timers="event_time").write("out")
    run = site.deployed(job)
    for hours, number in ((0, 1), (9, 0), (10, 0), (11, 0), (12, 0)):
        put(site, 0, hours, ("a", number))
        run.ran()
    assert site.values("out")[-1] == {"k": "a", "calls": [0, 1, 2, 0, 0]}


class Once(Processor):
    def on_message(self, message: dict[str, Any], timers: Timers) -> None:
        if message["n"] == 1:
            timers.register(START + HOUR)

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        yield {"k": key["k"]}


@pytest.mark.long
def test_a_timer_fires_when_the_watermark_is_later_than_its_time(site: Site) -> None:
    site.log.create("in", 1)
    job = Job("j")
    read = job.read("in", key="k string", schema=SCHEMA, event_time="at", watermark="0 seconds")
    read.process(Once(), schema="k string", timers="event_time").write("out")
    run = site.deployed(job)
    put(site, 0, 0, ("a", 1))
    for hours in (1, 1, 1 + 1 / 3_600_000):
        assert site.values("out") == []
        put(site, 0, hours, ("a", 0))
        run.ran()
    assert site.values("out") == [{"k": "a"}]


def test_what_is_refused(site: Site) -> None:
    site.log.create("in", 1)

    class Odd(Processor):
        names = MapState("array<int>", "int")

    class Wrong(Processor):
        value = ValueState("lomg")

    for processor, said in ((Odd(), "named by 'array<int>'"), (Wrong(), "lomg")):
        job = Job("j")
        job.read("in", key="k string", schema="n int").process(processor, schema="k string", name="p").write("out")
        with pytest.raises(GraphError, match="process 'p'") as refused:
            site.deployed(job)
        assert said in str(refused.value)
    config = site.root / "anabranch.toml"
    config.write_text('[systems.embedded]\nroot = "log"\n')
    with pytest.raises(UsageError, match=r"process 'silence' .* can't be previewed"):
        silence().preview("out", config=config)


class Reminds(Processor):
    """A timer that is far away and registers itself again, and a count that stays."""

    count = ValueState("long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> None:
        timers.register(START + 1000 * 24 * HOUR if message["event"] else datetime(2100, 1, 1, tzinfo=UTC))
        self.count.set(self.count.get(0) + 1)

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        yield {"k": key["k"], "n": self.count.get(), "drains": timers.draining}
        timers.register(at + 24 * HOUR)


@pytest.mark.long
def test_a_drain_lets_each_timer_go_off_and_keeps_state(spark: SparkSession) -> None:
    job = Job("j")
    read = job.read("in", key="k string", schema=SCHEMA, event_time="at", watermark="1 minute")
    columns = "k string, n long, drains boolean"
    clocks: tuple[Literal["event_time", "processing_time"], ...] = ("event_time", "processing_time")
    for clock in clocks:
        of_clock = read.with_columns(event=str(clock == "event_time").lower())
        of_clock.process(Reminds(), schema=columns, timers=clock, name=clock.replace("_", "-")).write(clock)
    rows = [{"k": k, "n": 1, "at": START.isoformat()} for k in "abcab"]
    result = run(job, {"in": [*rows, DRAIN, *rows[:1], DRAIN]}, timeout=PATIENCE * 4, partitions=1)
    for clock in clocks:
        told = sorted((v["k"], v["n"], v["drains"]) for v in result[clock])
        assert told == [("a", 2, True), ("a", 3, True), ("b", 2, True), ("c", 1, True)], clock


class Strict(Processor):
    """Keeps a total, and in ``on_timer`` the time, which is of a class of its own in the last batch of a drain."""

    total = ValueState("decimal(5,2)")
    ended = ValueState("timestamp")
    named = MapState("float", "map<string, array<float>>")

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        before = self.total.get(), sorted(self.named.items())
        self.total.set(Decimal(message["x"]))
        self.named.set(0.1, {"x": [0.1, None]})
        now = self.total.get(), sorted(self.named.items())
        timers.register(START)
        yield {"k": message["k"], "told": f"{before} {now}"}

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        self.ended.set(timers.now)
        yield {"k": key["k"], "told": str(self.ended.get())}


def test_state_gives_back_what_was_set_and_a_value_that_does_not_fit_rejects_its_message(spark: SparkSession) -> None:
    job = Job("j")
    read = job.read("in", key="k string", schema="x string, at timestamp", event_time="at", watermark="1 minute")
    read.process(Strict(), schema="k string, told string", timers="event_time", name="strict").write("out")
    rows = [[{"k": "a", "x": x, "at": START.isoformat()}] for x in ("1.5", "123456", "1.555", "2")]
    several = [*rows[0], BATCH, *rows[1], *rows[2], *rows[3], DRAIN]
    result = run(job, {"in": several}, timeout=PATIENCE * 2, partitions=1, on_error="dead-letter")
    entries = "[(0.10000000149011612, {'x': [0.10000000149011612, None]})]"
    assert [row["told"] for row in result["out"]] == [
        f"(None, []) (Decimal('1.50'), {entries})",
        f"(Decimal('1.50'), {entries}) (Decimal('2.00'), {entries})",
        "9999-12-31 23:59:59+00:00",
    ]
    assert [letter["x"] for letter in result["in-dead-letters"]] == ["123456", "1.555"]
