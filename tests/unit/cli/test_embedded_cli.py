"""``anabranch stream``: JSON lines in and out."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from anabranch.cli import json_lines
from anabranch.cli.stream import app
from anabranch.errors import AnabranchError, ConflictError, NotFoundError, UsageError
from anabranch.model.hashing import partition_for
from anabranch.systems.embedded import LaneWriter, Log, SegmentWriter
from anabranch.systems.records import RECORD_SCHEMA
from tests.support.disks import mounted
from tests.unit.systems.embedded.helpers import contents, records

Run = Callable[..., str]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "streams")


@pytest.fixture
def run(config: Path) -> Run:
    def call(*words: str) -> str:
        result = CliRunner().invoke(app, [*words, "--config", str(config)], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return call


def process(config: Path, *words: str) -> list[str]:
    return [
        sys.executable,
        "-c",
        "from anabranch.cli.stream import app; app()",
        *words,
        "--config",
        str(config),
    ]


def test_expand(run: Run, log: Log) -> None:
    run("create", "flights", "--partitions", "2")
    run("expand", "flights", "--partitions", "4")
    assert log.describe("flights").partitions == 4
    with pytest.raises(UsageError, match="has 4 partitions and can't have 6"):
        run("expand", "flights", "--partitions", "6")


def test_a_stream_that_cannot_be_described_is_listed(run: Run, log: Log) -> None:
    run("create", "flights", "--partitions", "2")
    run("create", "airports", "--partitions", "1")
    (log.root / "airports" / "stream.json").write_bytes(b"")
    assert run("list") == "airports\t?\nflights\t2\n"
    assert json.loads(run("list", "--json"))[0] == {"name": "airports", "partitions": None, "system": "embedded"}


def test_create_list_describe(run: Run) -> None:
    assert run("list") == ""  # and on stderr, that there are none
    assert run("create", "flights", "--partitions", "2") == ""
    run("create", "airports", "--partitions", "1")
    assert run("list") == "airports\t1\nflights\t2\n"
    assert json.loads(run("list", "--json"))[1] == {"name": "flights", "partitions": 2, "system": "embedded"}
    assert run("describe", "flights") == "flights: 2 partitions, 0 records\n0\t0\n1\t0\n"
    assert json.loads(run("describe", "flights", "--json"))["partitions"][1] == {
        "partition": 1,
        "start": 0,
        "end": 0,
    }
    with pytest.raises(ConflictError):
        run("create", "flights", "--partitions", "3")
    with pytest.raises(NotFoundError):
        run("describe", "fligths")


def test_put_and_cat(run: Run, log: Log, tmp_path: Path) -> None:
    run("create", "s", "--partitions", "4")
    lines = [json.dumps({"k": f"k{n % 7}", "n": n}) for n in range(100)]
    source = tmp_path / "lines"
    source.write_text("\n".join(lines) + "\n\n")
    run("put", "s", "--key", "k", "--file", str(source))
    assert sorted(run("cat", "s").splitlines()) == sorted(lines)
    for number in range(4):
        mine = [line for n, line in enumerate(lines) if partition_for(b"k%d" % (n % 7), 4) == number]
        assert run("cat", "s", "--partition", str(number)).splitlines() == mine
        assert run("cat", "s", "--partition", str(number), "--from", "2").splitlines() == mine[2:]
    assert run("cat", "s", "--from", "latest") == ""
    assert len(run("cat", "s", "--max", "3").splitlines()) == 3
    assert run("cat", "s", "--max", "0") == ""
    assert {line.split("\t")[0] for line in run("cat", "s", "--keys").splitlines()} == {f"k{n}" for n in range(7)}
    shown = [json.loads(line) for line in run("cat", "s", "--json").splitlines()]
    assert len({(record["partition"], record["offset"]) for record in shown}) == 100
    assert all(json.loads(record["value"])["k"] == record["key"] for record in shown)
    assert shown[0]["timestamp"].endswith("+00:00")
    for words in (["--from", "there"], ["--keys", "--json"]):
        with pytest.raises(UsageError):
            run("cat", "s", *words)


def test_cat_shows_what_is_no_text(run: Run, log: Log) -> None:
    log.create("s", 1)
    writer = SegmentWriter(log.root, "s", 0, 0)
    writer.write(records([b"\xff", None], [b"\x00\x80", None]))
    LaneWriter(log, "job", "lane", 1).publish("s", 0, 0, [writer.close()])
    shown = [json.loads(line) for line in run("cat", "s", "--json").splitlines()]
    assert [(record["key"], record["value"]) for record in shown] == [
        ({"base64": "AIA="}, {"base64": "/w=="}),
        (None, None),
    ]


def test_cat_shows_records_of_any_time(run: Run, log: Log) -> None:
    log.create("s", 1)
    writer = SegmentWriter(log.root, "s", 0, 0)
    batch = records([b"1", b"2", b"3"])
    times = pa.array([1_700_000_000_123_456, 2**62, -(2**62)], pa.timestamp("us", "UTC"))
    writer.write(batch.set_column(batch.schema.get_field_index("timestamp"), RECORD_SCHEMA.field("timestamp"), times))
    LaneWriter(log, "job", "lane", 1).publish("s", 0, 0, [writer.close()])
    shown = [json.loads(line) for line in run("cat", "s", "--json").splitlines()]
    assert [(record["value"], record["timestamp"]) for record in shown] == [
        ("1", "2023-11-14T22:13:20.123456+00:00"),
        ("2", "4611686018427387904"),
        ("3", "-4611686018427387904"),
    ]


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (None, None),
        ("é", "é".encode()),
        ("", b""),
        (5, b"\0\0\0\0\0\0\0\5"),
        (-1, b"\xff" * 8),
        (True, b"[true]"),
        (1.5, b"[1.5]"),
        (["a", 1], b'[["a",1]]'),
    ],
)
def test_key_bytes(value: object, key: bytes | None) -> None:
    assert json_lines.key_bytes(value) == key


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("1234567890.0123456789", b"[1234567890.0123456789]"),
        ("0.10000000000000001", b"[0.1]"),
        ("1234567890.0123457", b"[1234567890.0123457]"),
        ("[1.50, 0.10000000000000000001]", b"[[1.5,0.10000000000000000001]]"),
        ('{"a": 12345678901234567890e-1}', b'[{"a":12345678901234567890e-1}]'),
        ("1e-99999999999999999999", b"[1e-99999999999999999999]"),
        ("1.50", b"[1.5]"),
        ("1E5", b"[100000.0]"),
        ("-0.0", b"[-0.0]"),
        ("[5, null, true]", b"[[5,null,true]]"),
    ],
)
def test_no_number_is_rounded_on_its_way_into_a_key(field: str, key: bytes) -> None:
    line = f'{{"n": 0.10000000000000000001, "price": {field} }}'.encode()
    batch, fault = json_lines.records([line], 1, "price", json_lines.now())
    assert (batch.column("key").to_pylist(), fault) == ([key], None)


DEEP = '{"k": ' + "[" * 2000 + "]" * 2000 + "}"


@pytest.mark.parametrize(
    "bad", ["{", "[1]", '{"k": 99999999999999999999}', "\udcff", pytest.param(DEEP, id="nested too deeply")]
)
def test_a_bad_line_is_named_and_those_before_it_are_there(run: Run, log: Log, tmp_path: Path, bad: str) -> None:
    run("create", "s", "--partitions", "1")
    source = tmp_path / "lines"
    source.write_bytes(b'{"k": 1}\n\n{"n": 2}\n' + bad.encode(errors="surrogateescape") + b'\n{"k": 3}\n')
    with pytest.raises(AnabranchError, match=r"line 4 can't be put: .*; 2 records written[\s\S]*tail -n \+4"):
        run("put", "s", "--key", "k", "--file", str(source))
    assert contents(log, "s", 0) == [b'{"k": 1}', b'{"n": 2}']
    assert all(mark.closed for mark in log.ends("s")[0].writers.values())


@pytest.mark.parametrize("end", ["", "\n", '"}\n{"k": 3}\n'], ids=["endless", "ended", "ended and followed"])
def test_a_line_that_is_too_long_is_refused(
    run: Run, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(json_lines, "LINE_BYTES", 2 * 1024**2)
    run("create", "s", "--partitions", "1")
    source = tmp_path / "lines"
    fitting = b'"%s"' % (b"x" * (2 * 1024**2 - 2))
    source.write_bytes(b'{"k": 1}\n' + fitting + b'\n{"k": "' + b"x" * 3 * 1024**2 + end.encode())
    with pytest.raises(
        AnabranchError, match=r"line 3 can't be put: it has more than 2 MB; 2 records .*\n.*tail -n \+3"
    ):
        run("put", "s", "--file", str(source))
    assert contents(log, "s", 0) == [b'{"k": 1}', fitting]


def test_a_line_is_read_only_up_to_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(json_lines, "LINE_BYTES", 2 * 1024**2)
    (tmp_path / "blank").write_bytes(b" " * 9 * 1024**2)
    with open(tmp_path / "blank", "rb") as source:
        ((line,),) = json_lines.batches(source.fileno())
    assert len(line) == 3 * 1024**2
    assert json_lines.records([line], 1, None, json_lines.now())[1] is not None, "the rest of the line isn't known"


def test_lines_may_be_cut_anywhere_on_their_way() -> None:
    for chunks in ([b"1\n2", b"", b"2\n", b"\n3", b"3"], [b"1", b"\n", b"22\n\n", b"33"], [b"1\n22\n\n33"]):
        read, write = os.pipe()
        with open(read, "rb") as source, open(write, "wb", buffering=0) as pipe:
            found = json_lines.batches(source.fileno())
            lines: list[bytes] = []
            for chunk in chunks:
                pipe.write(chunk)
                if chunk.endswith(b"\n"):
                    lines += next(found)
            pipe.close()
            assert [*lines, *(line for batch in found for line in batch)] == [b"1", b"22", b"", b"33"]


def test_a_full_disk_says_how_many_lines_are_there(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", 6) as disk:
        if disk is None:
            pytest.skip("this user may not mount a disk")
        config = tmp_path / "anabranch.toml"
        config.write_text(f'[systems.embedded]\nroot = "{disk.path}/streams"\n')
        log = Log(disk.path / "streams")
        log.create("s", 3)
        source = tmp_path / "lines"
        dice = random.Random(1)
        source.write_text("".join(f'{{"k": {n}, "text": "{dice.randbytes(40).hex()}"}}\n' for n in range(120_000)))
        with pytest.raises(AnabranchError, match=r"50,000 records written, .* line 50001; .*No space left") as caught:
            CliRunner().invoke(
                app, ["put", "s", "--key", "k", "--file", str(source), "--config", str(config)], catch_exceptions=False
            )
        assert str(disk.path) in caught.value.what
        assert "tail -n +50001" in caught.value.cure
        assert sum(log.ends("s")[number].end for number in range(3)) == 50_000
        files = list(disk.path.glob("streams/s/*/segments/*"))
        assert len(files) == 3  # of those that weren't written whole, nothing is left


def test_many_lines_are_published_in_parts(run: Run, log: Log, tmp_path: Path) -> None:
    run("create", "s", "--partitions", "1")
    source = tmp_path / "lines"
    source.write_text("".join(f"{n}\n" for n in range(120_000)).rstrip("\n"))
    run("put", "s", "--file", str(source))
    assert contents(log, "s", 0) == [b"%d" % n for n in range(120_000)]
    assert {log.entry("s", 0, n).rows for n in range(1, 4)} == {50_000, 20_000}  # type: ignore[union-attr]


def test_a_trickle_is_published_as_it_comes_and_followed(config: Path, log: Log) -> None:
    log.create("s", 1)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    follow = subprocess.Popen(
        process(config, "cat", "s", "--follow", "--max", "2"), stdout=subprocess.PIPE, env=environment
    )
    put = subprocess.Popen(process(config, "put", "s"), stdin=subprocess.PIPE, env=environment)
    try:
        assert put.stdin is not None
        assert follow.stdout is not None
        put.stdin.write(b"1\n")
        put.stdin.flush()
        assert follow.stdout.readline() == b"1\n"
        put.stdin.write(b"2\n")
        put.stdin.flush()
        assert follow.stdout.readline() == b"2\n"
        assert follow.wait(20) == 0
        put.stdin.close()
        assert put.wait(20) == 0
    finally:
        follow.kill()
        put.kill()


def test_a_reader_that_leaves_is_no_error(config: Path, log: Log, run: Run, tmp_path: Path) -> None:
    run("create", "s", "--partitions", "1")
    source = tmp_path / "lines"
    source.write_text("".join(f'"{n:0100}"\n' for n in range(100_000)))
    run("put", "s", "--file", str(source))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    cat = subprocess.Popen(process(config, "cat", "s"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert cat.stdout is not None
    assert cat.stderr is not None
    assert cat.stdout.readline() == b'"' + b"0" * 100 + b'"\n'
    cat.stdout.close()
    assert cat.stderr.read() == b""
    assert cat.wait(20) == 0
