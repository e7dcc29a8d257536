"""What Python functions raise or return is put aside as a dead letter, once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from anabranch import Job, Processor, tumbling
from anabranch.api.timers import Timers
from tests.integration.dead_letters import counted, letters
from tests.integration.harness import Site

SCHEMA = "n int, d string, at timestamp"


def broken(message: dict[str, Any]) -> dict[str, Any]:
    if message["n"] == 3:
        raise ValueError("three is too many")
    return message


def broken_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    for message in batch.to_pylist():
        broken(message)
    return batch


async def broken_later(message: dict[str, Any]) -> dict[str, Any]:
    return broken(message)


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("map", broken),
        ("map", broken_later),
        ("map", lambda m: {**m, "n": "text" if m["n"] == 3 else m["n"]}),
        ("flat_map", lambda m: [broken(m)]),
        ("filter", lambda m: bool(broken(m))),
        ("map_arrow", broken_batch),
    ],
)
@pytest.mark.suite(cases=1)
def test_a_message_on_which_a_function_raises_is_put_aside_alone(site: Site, kind: str, function: Any) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(6)], [b"k%d" % n for n in range(6)])
    job = Job("j")
    stream = job.read("in", key="k string", schema="n int")
    getattr(stream, kind)(function, name="f").agg(n="max(n)").write("out")
    run = site.deployed(job, on_error="dead-letter")
    run.ran()
    assert sorted(v["n"] for v in site.values("out")) == [0, 1, 2, 4, 5]
    ((_, record, ours),) = letters(site)
    assert (record["key"], record["value"], ours["offset"]) == (b"k3", b'{"n": 3}', "3")
    assert ours["operator"].startswith(f"{kind} 'f' (test_dead_letters_of_functions.py:")
    assert "ValueError: three is too many" in ours["error"] or "'n' is int, but got 'text' (str)" in ours["error"]
    assert counted(run) == (1, 0)


def test_a_function_after_a_partition_by_has_its_own_dead_letters(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n, "d": "a"} for n in range(5)])
    job = Job("j")
    job.read("in", schema=SCHEMA).partition_by("d", name="by-d").map(broken).write("out")
    run = site.deployed(job, on_error="dead-letter")
    run.ran()
    ((_, record, ours),) = letters(site, "j-by-d-1-dead-letters")
    assert (record["key"], ours["stream"], ours["offset"]) == (b"a", "j-by-d-1", "3")
    assert letters(site) == []


def test_rows_that_lost_their_event_time_are_put_aside_at_the_next_partition_by(site: Site) -> None:
    """Otherwise, Spark would leave them out of the windows behind it, and nobody would know."""
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n, "d": "a", "at": f"2020-01-01T0{n}:30:00Z"} for n in range(7)])
    job = Job("j")
    rows = job.read("in", schema=SCHEMA, event_time="at", watermark="10 minutes")
    spoilt = {2: {"at": None}, 3: {"d": None}, 4: {"at": None, "d": None}}
    by_d = rows.map(lambda m: {**m, **spoilt.get(m["n"], {})}).partition_by("d", name="by-d")
    by_d.window(tumbling("1 hour")).agg(n="sum(n)", emit="on_close").write("out")
    run = site.deployed(job, on_error="dead-letter", on_null_key="dead-letter")
    run.ran()
    assert sorted(v["n"] for v in site.values("out")) == [0, 1, 5]
    errors = {int(ours["offset"]): ours["error"] for _, _, ours in letters(site)}
    assert errors == {2: "the event time is null", 3: "the key is null", 4: "the event time is null"}
    assert counted(run) == (3, 0)


def test_rows_that_lost_their_event_time_between_two_partition_bys_are_put_aside(site: Site) -> None:
    """Also if no function stands there, but only SQL or a ``transform``."""
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n, "d": "a", "at": f"2020-01-01T0{n}:30:00Z"} for n in range(5)])
    job = Job("j")
    rows = job.read("in", schema=SCHEMA, event_time="at", watermark="10 minutes").partition_by("d", name="by-d")
    spoilt = rows.transform(lambda df: df.withColumn("at", F.expr("if(n = 2, null, at)")))
    by_n = spoilt.partition_by("n", name="by-n")
    by_n.window(tumbling("1 hour")).agg(c="count(*)", emit="on_close").write("out")
    run = site.deployed(job, on_error="dead-letter", on_null_key="dead-letter")
    run.ran()
    found = [(ours["offset"], ours["error"]) for _, _, ours in letters(site, "j-by-d-1-dead-letters")]
    assert found == [("2", "the event time is null")]


def test_rows_without_key_and_event_time_are_put_aside_once_each(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n, "at": f"2020-01-01T0{n}:30:00Z"} for n in range(7)], [b"k"] * 7)
    job = Job("j")
    rows = job.read("in", key="k string", schema="n int, at timestamp", event_time="at", watermark="10 minutes")
    spoilt = {2: {"at": None}, 3: {"k": None}, 4: {"at": None, "k": None}}
    rows = rows.map(lambda m: {**m, **spoilt.get(m["n"], {})}, schema="k string, n int, at timestamp")
    rows.window(tumbling("1 hour")).agg(s="sum(n)", emit="on_close").write("out")
    run = site.deployed(job, on_error="dead-letter", on_null_key="dead-letter")
    run.ran()
    assert sorted(v["s"] for v in site.values("out")) == [0, 1, 5]
    errors = {int(ours["offset"]): ours["error"] for _, _, ours in letters(site)}
    assert errors == {2: "the event time is null", 3: "the key is null", 4: "the key is null"}
    assert counted(run) == (3, 0)


@pytest.mark.long
def test_a_row_that_comes_of_no_single_record_is_put_aside_as_it_is(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n, "d": "a" if n else None} for n in range(3)], [b"k"] * 3)
    job = Job("j")
    stream = job.read("in", key="k string", schema="n int, d string")
    stream.agg(c="count(*)").map(lambda m: {**m, "c": 1 // (m["c"] - 3)}, name="f").write("counts")
    stream.map_arrow(lambda batch: batch.slice(0, 2), name="g").partition_by("d", name="by-d").write("out")
    run = site.deployed(job, on_error="dead-letter", on_null_key="dead-letter")
    run.ran()
    found = {
        ours["operator"].split(" (")[0]: (record["key"], record["value"], ours) for _, record, ours in letters(site)
    }
    assert {operator: each[:2] for operator, each in found.items()} == {
        "map 'f'": (b"k", b'{"k": "k", "c": 3}'),
        "partition_by 'by-d'": (None, b'{"n": 0, "k": "k"}'),
    }
    assert all("offset" not in ours for _, _, ours in found.values())
    assert counted(run) == (2, 0)


class Mute(Exception):
    def __str__(self) -> NoReturn:
        raise SystemExit

    __repr__ = __reduce__ = __str__


class Odd:
    def __repr__(self) -> NoReturn:
        raise KeyboardInterrupt

    __str__ = __repr__


async def nobody_waits() -> None:
    """Isn't awaited."""


def nasty(message: dict[str, Any]) -> Any:
    """Fails in another way for each number below 16; the others are right."""
    match message["n"]:
        case 0:
            raise Mute
        case 1:
            raise SystemExit(1)
        case 2:
            raise KeyboardInterrupt
        case 3:
            raise GeneratorExit
        case 4:
            raise StopIteration
        case 5:
            raise MemoryError
        case 6:
            return nasty(message)
        case 7:
            raise ExceptionGroup("two", [ValueError("\ud800\0"), Mute()])
        case 8:
            raise ValueError("x" * 50 * 2**20)
        case 9:
            raise BaseException(Odd())
        case 10:
            return nobody_waits()
        case 11:
            return {"n": 1.5}
        case 12:
            return {"d": "\udfff"}
        case 13:
            return {"d": Odd()}
        case 14:
            return Odd()
        case 15:
            raise asyncio.CancelledError
    return message


async def nasty_async(message: dict[str, Any]) -> Any:
    return nasty(message)


class Nasty(Processor):
    def on_message(self, message: dict[str, Any], timers: Timers) -> Any:
        yield nasty(message)


def test_whatever_functions_raise_or_return_is_put_aside(site: Site) -> None:
    """Each function of one job fails on the same records, in its own dead letters."""
    site.log.create("in", 2)
    values = [{"n": n, "d": "x"} for n in range(40)]
    for partition in range(2):
        site.put("in", partition, values, [b"k%d" % n for n in range(40)])
    job = Job("j")
    stream = job.read("in", key="k string", schema="n int, d string")
    stream.map(nasty, name="plain").write("plain")
    stream.map(nasty_async, name="later").write("later")
    stream.flat_map(lambda m: (nasty(m) for _ in range(2)), name="several").write("several")
    stream.process(Nasty(), name="keyed").write("keyed")
    run = site.deployed(job, on_error="dead-letter")
    run.ran()
    for output, times in (("plain", 1), ("later", 1), ("several", 2), ("keyed", 1)):
        assert sorted(v["n"] for v in site.values(output)) == sorted([*range(16, 40)] * 2 * times), output
    found = letters(site)
    by_operator = Counter(ours["operator"].split(" ")[1] for _, _, ours in found)
    assert by_operator == {"'plain'": 32, "'later'": 32, "'several'": 32, "'keyed'": 32}
    assert all(0 < len(ours["error"]) <= 2000 for _, _, ours in found)
    plain = {
        json.loads(record["value"])["n"]: ours["error"] for _, record, ours in found if "plain" in ours["operator"]
    }
    starts = [
        "Mute: its text can't be made",
        "SystemExit: 1 at test_dead_letters_of_functions.py:",
        "KeyboardInterrupt at ",
        "GeneratorExit at ",
        "StopIteration at ",
        "MemoryError at ",
        "RecursionError: maximum recursion depth exceeded",
        "ExceptionGroup: two (2 sub-exceptions) [ValueError: \\ud800\\x00; Mute: its text",
        "ValueError: xxx",
        "BaseException: its text can't be made",
        "it returned a coroutine that wasn't awaited",
        "its column 'n' is int, but got 1.5 (float)",
        "its column 'd' is string, but got '\\udfff' (str)",
        "its column 'd' is string, but got <a Odd that has no repr>",
        "it returned <a Odd that has no repr>, not a dict",
        "CancelledError at ",
    ]
    for n, start in enumerate(starts):
        assert plain[n].startswith(start), (n, plain[n])


def too_large(message: dict[str, Any]) -> dict[str, Any]:
    if len(message["d"]) > 10:
        raise ValueError(message["d"])
    return message


@pytest.mark.long
def test_messages_of_50_mb_are_put_aside(site: Site) -> None:
    """Those that can't be read (nor can a text in JSON of more than 20 MB), and one on which a function raises an error
    as long as the message. They come through whole."""
    site.log.create("in", 1)
    large, less = "x" * 50 * 2**20, "x" * 15 * 2**20
    values = [{"d": "a"}, large.encode(), {"d": large}, {"d": less}, {"d": "b"}]
    site.put("in", 0, values, [b"k"] * 5)
    job = Job("j")
    job.read("in", key="k string", schema="d string").map(too_large, name="f").write("out")
    run = site.deployed(job, on_error="dead-letter")
    run.ran()
    assert [v["d"] for v in site.values("out")] == ["a", "b"]
    found = {int(ours["offset"]): (len(record["value"]), ours["error"]) for _, record, ours in letters(site)}
    around = len('{"d": ""}')
    sizes = {offset: size for offset, (size, _) in found.items()}
    assert sizes == {1: len(large), 2: len(large) + around, 3: len(less) + around}
    assert all(len(error) <= 2000 for _, error in found.values())
    assert found[3][1].startswith("ValueError: xxxx")
